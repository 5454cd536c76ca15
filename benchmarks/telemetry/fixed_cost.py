"""What a nearly empty batch costs under Millrace, relative to the same script under plain spark-submit.

All run on the same cluster, with the same executors, in turns: Millrace; plain spark-submit with the defaults of Spark
and Delta; and plain spark-submit with the settings for small batches that Millrace makes. Batches follow each other,
and each reads a few rows whose look-ups take no time, so what is left is the fixed cost: planning, tasks, Python
workers, state, commits, and what Millrace adds. Spark's event log has the duration of every batch.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from statistics import median as middle
from typing import cast

from benchmarks.delays_app import Feed, flight_rows
from benchmarks.elastic.cluster import Cluster, embedded_cluster
from benchmarks.elastic.methods import LIVE
from benchmarks.elastic.pipeline import LIMIT_S, READ_S, Pipeline, wait_until
from benchmarks.elastic.runs import make_pipeline, source_of
from benchmarks.record import Record, at_most, median
from millrace.drivers.executor_conf import login
from millrace.drivers.submit import DEFAULTS, DELTA_DEFAULTS
from millrace.environment import spark_env
from millrace.model.master import EMBEDDED
from millrace.model.submit_options import conf_words

BENCH, SCENARIO = "telemetry", "fixed cost of a batch, 2 slots"
MILLRACE, PLAIN, TUNED = "millrace", "plain spark-submit", "plain spark-submit, tuned"
LIMIT = 1.3
RATE_ROWS_PER_S = 2.0
WARM_S = 30.0
"""Time until classes are compiled and the Python workers run; batches before it do not count."""
ROUNDS, BATCHES = 3, 20
QUICK_ROUNDS, QUICK_BATCHES = 1, 5
MOST_S = 60.0
"""Longest batch to wait for."""
PERIOD_S = 8.0
"""Seconds between two evaluations, as in the built-in pipeline: telemetry is committed every third of it."""
EVENT_LOG = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
NEEDED = {**DELTA_DEFAULTS, "spark.ui.enabled": "false"}
"""Those of Millrace's settings without which the script does not run, or needs a port."""
PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"


def measure(quick: bool) -> list[Record]:
    """Measure batches under Millrace and under plain spark-submit, in turns.

    Args:
        quick: One short round.

    Raises:
        RuntimeError: If a driver does not start or runs too few batches.
    """
    rounds, batches = (QUICK_ROUNDS, QUICK_BATCHES) if quick else (ROUNDS, BATCHES)
    took: dict[str, list[float]] = {MILLRACE: [], PLAIN: [], TUNED: []}
    with (
        tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder,
        embedded_cluster(Path(folder).resolve()) as cluster,
    ):
        for number in range(rounds):
            for method in took if number % 2 else reversed(took):
                took[method].append(middle(_batches_s(cluster, method, number, batches)))
    return [
        *(median(BENCH, SCENARIO, method, "batch_s", values, "s") for method, values in took.items()),
        *(_ratio(took[MILLRACE], rival, took[rival]) for rival in (PLAIN, TUNED)),
    ]


def _ratio(ours: Sequence[float], rival: str, theirs: Sequence[float]) -> Record:
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    target, holds = at_most(max(ratios), LIMIT)
    found = median(BENCH, SCENARIO, f"{MILLRACE}/{rival}", "batch", ratios, "ratio")
    return replace(found, target=target, holds=holds)


def _batches_s(cluster: Cluster, method: str, number: int, batches: int) -> list[float]:
    """Return the durations of the warm batches of one turn, seconds."""
    pipeline = make_pipeline(cluster, f"{method.replace(' ', '_')}-{number}", LIVE, 0.0, PERIOD_S)
    events = pipeline.home.root / "events"
    events.mkdir()
    conf = {**EVENT_LOG, "spark.eventLog.dir": events.as_uri()}
    commits = pipeline.home.root / "data" / "checkpoints" / "delays" / "commits"
    feed = Feed(source_of(pipeline.home), flight_rows(1))
    feed.commit(1)
    running = (
        _under_millrace(pipeline, conf)
        if method == MILLRACE
        else _plain(pipeline, conf, DEFAULTS if method == TUNED else {})
    )
    with running as ended:

        def await_batch(number: int) -> None:
            limit_s = LIMIT_S + MOST_S * batches
            wait_until(lambda: ended() or _last_batch(commits) >= number, f"batch {number}", limit_s, READ_S)
            if ended():
                raise RuntimeError(f"the driver ended: {pipeline.log('plain.log')}")

        with feed.at(lambda _second: RATE_ROWS_PER_S):
            await_batch(0)
            time.sleep(WARM_S)
            cold = _last_batch(commits)
            await_batch(cold + batches)
    return durations_s(events, cold + 1)


def _last_batch(commits: Path) -> int:
    return max((int(path.name) for path in commits.glob("*") if path.name.isdigit()), default=-1)


@contextmanager
def _under_millrace(pipeline: Pipeline, conf: Mapping[str, str]) -> Iterator[Callable[[], bool]]:
    app = pipeline.first.apps[pipeline.spec.app]
    submit = {**app.submit, "conf": {**cast(Mapping[str, str], app.submit.get("conf", {})), **conf}}
    logged = replace(pipeline.first, apps={pipeline.spec.app: replace(app, submit=submit)})
    with replace(pipeline, first=logged).running():
        yield lambda: False  # the reconciler reports a driver that does not start


@contextmanager
def _plain(pipeline: Pipeline, conf: Mapping[str, str], tuned: Mapping[str, str]) -> Iterator[Callable[[], bool]]:
    """Run the script as its user would: the same executors and the user's own settings, the rest is Spark's."""
    spec, app = pipeline.spec, pipeline.first.apps[pipeline.spec.app]
    assert app.executor is not None
    options, log = pipeline.cluster.submit_options(pipeline.home), pipeline.home.logs / "plain.log"
    settings = {
        **{key: value for key, value in options.conf.items() if not key.endswith("JavaOptions")},
        "spark.executor.extraClassPath": options.conf["spark.driver.extraClassPath"],
        "spark.executor.cores": str(app.executor.cores),
        "spark.executor.memory": f"{app.executor.memory_mb}m",
        "spark.cores.max": str(app.slots),
        "spark.default.parallelism": str(app.max_parallelism),
        "spark.sql.shuffle.partitions": str(app.max_parallelism),
        **NEEDED,
        **tuned,
        **spec.submit.conf,
        **conf,
    }
    argv = [str(options.spark_submit), "--master", pipeline.cluster.address, *login(options, EMBEDDED)]
    argv += ["--driver-memory", f"{app.memory_mb}m", *conf_words(settings), app.script, *app.args]
    with log.open("ab") as out:
        process = subprocess.Popen(
            argv, env={**os.environ, **spark_env.environment()}, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield lambda: process.poll() is not None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # the JVM, and the script's Python process
        process.wait()
        wait_until(lambda: not pipeline.cluster.executors.alive(), "executors that end with their driver")


def durations_s(events: Path, first: int) -> list[float]:
    """Return the durations of the batches with rows, seconds, in order.

    Args:
        events: Folder of the event log of one application.
        first: Number of the first batch that counts.
    """
    found = []
    for log in (path for path in events.iterdir() if path.is_file()):
        for line in log.read_text(encoding="utf-8").splitlines():
            if line.replace(" ", "", 1).startswith(f'{{"Event":"{PROGRESS}"'):
                progress = json.loads(line)["progress"]
                if progress["batchId"] >= first and any(source["numInputRows"] for source in progress["sources"]):
                    found.append(progress["durationMs"]["triggerExecution"] / 1000)
    return found

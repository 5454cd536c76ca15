"""How long a pipeline with live executors is away after a fault, and what its results lack in the end.

Real drivers and executors on the embedded cluster, healed once a second as the runner does (Airflow's DAG ``reconcile``
comes once a minute, so there up to a minute is added). Kinds of faults take turns; moments, victims, and whether slots
change at that moment come from a seed. Faults of Airflow's own processes are not among them.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from benchmarks.delays_app import Feed, flight_rows
from benchmarks.elastic.cluster import embedded_cluster
from benchmarks.elastic.methods import LIVE
from benchmarks.elastic.pipeline import READ_S, Pipeline, wait_until
from benchmarks.elastic.runs import make_pipeline, results_of, source_of
from benchmarks.faults.injection import FAULTS, WITHOUT_FEED
from benchmarks.record import Record, at_most, median
from include.local.demo.comparison import compare, settled
from include.local.stack.progress import say, step
from include.model.errors import Conflict, MillraceError, NotReady
from include.run_folder.discovery import find

BENCH, ALL = "faults", "all"
RATE_ROWS_PER_S, WAIT_MS, PERIOD_S = 12.0, 30.0, 6.0
SLOTS = (2, 4, 6)
HEAL_EVERY_S = 1.0
HANG_DEADLINE_S = 40.0
CALM_S = (1.0, 6.0)
"""From one fault's end to the next."""
RESIZED = 0.5
"""Share of faults that meet a change of slots under way."""
RECOVERED_LIMIT_S = 120.0
WHOLE, QUICK = 50, 9


@dataclass
class Campaign:
    """What was found.

    Attributes:
        recovered_s: From each fault to the next commit on the wanted slots, by its name.
        failures: Faults after which nothing came back.
        doubled: Drivers beside the one that serves, the most that were seen after a fault.
        errors: What the reconciler raised that it should not.
    """

    recovered_s: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    doubled: int = 0
    errors: list[str] = field(default_factory=list)


def run(quick: bool, seed: int = 0) -> list[Record]:
    """Do faults to a running pipeline, one after the other.

    Args:
        quick: Each kind once.
        seed: Fixes moments and victims.
    """
    chance, found = random.Random(seed), Campaign()  # noqa: S311 - draws, no secrets
    with (
        tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder,
        embedded_cluster(Path(folder).resolve()) as cluster,
    ):
        pipeline = make_pipeline(cluster, BENCH, LIVE, WAIT_MS, PERIOD_S)
        limits = {"hang_deadline_s": HANG_DEADLINE_S, "ready_deadline_s": 60.0}
        pipeline = replace(pipeline, spec=pipeline.spec.model_copy(update=limits))
        source, results = source_of(pipeline.home), results_of(pipeline.home)
        feed = Feed(source, flight_rows(5))
        feed.commit(int(RATE_ROWS_PER_S))
        with pipeline.running(), _healed(pipeline, found):
            for number in range(QUICK if quick else WHOLE):
                name = list(FAULTS)[number % len(FAULTS)]
                with step(f"{number + 1}: {name}"):
                    _do(pipeline, feed, name, chance, found)
            feed.finish()
            wait_until(lambda: settled(source, results), "all rows processed", every_s=READ_S)
        compared = compare(source, results)
    return [*campaign_records(found), *_judged({"rows_lost": compared.lost, "rows_doubled": compared.doubled})]


def _do(pipeline: Pipeline, feed: Feed, name: str, chance: random.Random, found: Campaign) -> None:
    version = None
    with ExitStack() as flow:
        flow.enter_context(feed.at(lambda _: RATE_ROWS_PER_S))
        _await_commit(pipeline, time.time())
        time.sleep(chance.uniform(*CALM_S))
        if chance.random() < RESIZED:
            version = pipeline.resize(chance.choice(SLOTS)).version
            time.sleep(chance.uniform(0.0, 3.0))
        if name in WITHOUT_FEED:
            flow.close()
        FAULTS[name](pipeline, chance)
        done = time.time()
    with feed.at(lambda _: RATE_ROWS_PER_S):
        try:
            _await_commit(pipeline, done)
            if version is not None:
                pipeline.await_version(version)
        except RuntimeError as error:
            say(f"    {name}: {error}")
            found.failures.append(name)
        else:
            found.recovered_s.setdefault(name, []).append(round(time.time() - done, 1))
    found.doubled = max(found.doubled, len(find(pipeline.home.run / "drivers", pipeline.spec.name)) - 1)


def _await_commit(pipeline: Pipeline, after: float) -> None:
    """Wait for a batch that was committed after a time (Unix seconds)."""

    def committed() -> bool:
        record = pipeline.record()
        last = record and record.last_commit_at
        return last is not None and last.timestamp() > after

    wait_until(committed, "a batch is committed")


@contextmanager
def _healed(pipeline: Pipeline, found: Campaign) -> Iterator[None]:
    """Heal the pipeline once a second while the block runs."""
    ended = threading.Event()

    def heal() -> None:
        while not ended.wait(HEAL_EVERY_S):
            try:
                pipeline.reconciler().reconcile(wait_s=0)
            except (NotReady, Conflict, MillraceError):
                continue
            except Exception as error:
                found.errors.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=heal, name="healer")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def campaign_records(found: Campaign) -> Iterator[Record]:
    """Yield the figures of a campaign, but for what its results lack."""
    for name, values in found.recovered_s.items():
        yield median(BENCH, name, "millrace", "recovered_s", values, "s")
    every: Sequence[float] = [value for values in found.recovered_s.values() for value in values]
    if every:
        p95 = float(np.quantile(every, 0.95))
        target, holds = at_most(p95, RECOVERED_LIMIT_S)
        yield Record(BENCH, ALL, "millrace", "recovered_p95_s", p95, "s", n=len(every), target=target, holds=holds)
    for error in sorted(set(found.errors)):
        say(f"    the reconciler raised {error}")
    counts = {"not_recovered": found.failures, "tracebacks": found.errors}
    yield from _judged({**{name: len(those) for name, those in counts.items()}, "doubled_drivers": found.doubled})


def _judged(counts: dict[str, int]) -> Iterator[Record]:
    for figure, value in counts.items():
        target, holds = at_most(value, 0)
        yield Record(BENCH, ALL, "millrace", figure, value, "", target=target, holds=holds)

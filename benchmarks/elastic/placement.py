"""Batch time after 1 -> 4 executors on a stateful query that never stops: our placement against Spark's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from types import MappingProxyType

from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.methods import LIVE, Method, first_deployment, spec_for
from benchmarks.elastic.pipeline import Pipeline, wait_until

SCRIPT = Path(__file__).with_name("scripts") / "busy_state.py"
WARM_BATCHES, SKIPPED_BATCHES = 3, 4
"""Skipped batches after the scale-up load state and warm up new workers; a move takes one to three."""
PARTITIONS = 16
FEW, MANY = 2, 8
"""Slots: one executor, and four."""
GROWING = {
    "spark.cores.max": str(MANY),
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "false",
    **{f"spark.dynamicAllocation.{bound}Executors": "1" for bound in ("min", "initial", "max")},
}
"""The script requests executors itself, after stopping Spark's own allocation."""
OURS = "live"
PLACED: Mapping[str, Method] = {
    OURS: LIVE,
    "wait_3s": Method("wait_3s", conf={**GROWING, "spark.locality.wait": "3s"}),
    "wait_0": Method("wait_0", conf={**GROWING, "spark.locality.wait": "0"}),
}


def batch_time_s(cluster: Cluster, name: str, method: Method, batches: int) -> float:
    """Return the median batch time on four executors, after scaling up from one.

    Args:
        cluster: The cluster.
        name: Name of the run, a folder.
        method: The placement method.
        batches: Number of batches to measure.
    """
    with grown(cluster, name, method) as pipeline:
        measured = pipeline.await_batches(SKIPPED_BATCHES + batches, datetime.now(UTC))
    return median(batch.duration_s for batch in measured[SKIPPED_BATCHES:])


@contextmanager
def grown(
    cluster: Cluster,
    name: str,
    method: Method,
    *options: str,
    script: Path = SCRIPT,
    partitions: int = PARTITIONS,
    conf: Mapping[str, str] = MappingProxyType({}),
    jars: Sequence[str] = (),
    scheme: str = "",
) -> Iterator[Pipeline]:
    """Run the query, and yield it once it has grown from one executor to four.

    Args:
        cluster: The cluster.
        name: Name of the run, a folder.
        method: The placement method.
        options: Options of the script.
        script: Builds the query.
        partitions: State partitions of each stage.
        conf: Additional Spark settings.
        jars: Additional jars.
        scheme: File system of the checkpoint, with its colon; empty for the default one.
    """
    home = cluster.home(name)
    spec = spec_for(str(home.root), method, 0.0, 2.0)
    wanted = home.root / "executors"
    args = [f"--checkpoint={scheme}{home.root / 'checkpoint'}", *options]
    args += [] if method.agent else [f"--executors={wanted}"]
    submit = spec.submit.model_copy(
        update={"conf": {**spec.submit.conf, **method.conf, **conf}, "jars": (*spec.submit.jars, *jars)}
    )
    ours = {"script": str(script), "args": tuple(args), "submit": submit, "max_parallelism": partitions}
    spec = spec.model_copy(update=ours)
    pipeline = Pipeline(cluster, home, spec, first_deployment(spec, method, cluster.submit_options(home)))
    with pipeline.running():
        pipeline.await_batches(WARM_BATCHES, datetime.now(UTC))
        if method.agent:
            pipeline.resize_and_record(MANY)
        else:
            wanted.write_text(str(MANY // FEW), encoding="utf-8")
            wait_until(lambda: len(cluster.executors.alive()) == MANY // FEW, "four executors")
        yield pipeline

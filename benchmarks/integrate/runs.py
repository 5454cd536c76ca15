"""One run: a skewed stream through a query whose partitions start evenly by number, with one method."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.delays_app import Feed
from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.judging import Cost
from benchmarks.elastic.measure import Cores, behind_s, core_seconds, longest_lag_s
from benchmarks.elastic.pipeline import READ_S, Pipeline, wait_until
from benchmarks.integrate.scripts.skewed_rows import rows_of_partitions
from millrace.local.demo.timeline import read_timeline
from millrace.model.deployment import NOWHERE, AppDeployment, Deployment
from millrace.model.spec import PipelineSpec

SCRIPT = Path(__file__).with_name("scripts") / "skewed_rows.py"
PARTITIONS, EXECUTORS, MOST_EXECUTORS = 32, 4, 8
HOT, HOT_ROWS, COLD_ROWS = 3, 15, 3
"""Three of 32 partitions have a third of the rows: 15 of 132 rows each, the others 3."""
WAIT_MS = 30.0
USED = 0.6
"""Share of the time of four slots that the rows need if they are spread evenly.

With the cost of batches and tasks, four slots then meet the goal, but not if half of the rows are on one of them.
"""
MAX_LAG_S, CATCH_UP_S = 40.0, 300.0
"""Goals for all methods. A backlog from the start may drain as slowly as the stream is long: that is not compared."""
OPERATOR = "skewed/0"
ALL = 100_000
"""Limit on versions, above any run's number."""
FIGURES = {
    "core_seconds": "core-s",
    "behind_s": "s",
    "longest_lag_s": "s",
    "slots_added": "slots",
    "moves": "partitions",
    "rows_lost": "rows",
    "rows_doubled": "rows",
}


@dataclass(frozen=True)
class Method:
    """Who decides on slots and placement.

    Attributes:
        name: Its name in figures.
        framework: The option of ``placement``; None for slots and partitions that never change.
    """

    name: str
    framework: str | None = None


OURS, RIVAL = Method("integrated", "integrated"), Method("non_integrated", "non_integrated")
METHODS = (OURS, RIVAL, Method("fixed"))


@dataclass(frozen=True)
class Run:
    """The measurements of a run.

    Attributes:
        figures: Values of :data:`FIGURES`.
    """

    figures: Mapping[str, float]

    @property
    def cost(self) -> Cost:
        """What it cost."""
        return Cost(self.figures["core_seconds"], self.figures["behind_s"])


def hot_partitions(seed: int) -> tuple[int, ...]:
    """Return three partitions that start on one executor, by number; another seed gives others."""
    first = seed % EXECUTORS
    return tuple(first + EXECUTORS * n for n in (1, 4, 6))


def rows_per_s() -> float:
    """Return the arrival rate, rows per second."""
    return USED * EXECUTORS * 1000 / WAIT_MS


def spec_for(root: Path, method: Method, hot: Sequence[int], period_s: float) -> PipelineSpec:
    """Return the pipeline of a run.

    Args:
        root: Its home.
        method: The method.
        hot: The hot partitions.
        period_s: Seconds between two evaluations.
    """
    places = {name: root / "data" / name for name in ("source", "checkpoint")} | {"results": root / "data/counts.json"}
    args = [f"--{name}={path}" for name, path in places.items()]
    args += [f"--wait-ms={WAIT_MS:g}", f"--hot={','.join(map(str, hot))}"]
    args += [f"--hot-rows={HOT_ROWS}", f"--cold-rows={COLD_ROWS}"]
    return PipelineSpec.model_validate(
        {
            "name": "skewed",
            "script": str(SCRIPT),
            "args": args,
            "max_parallelism": PARTITIONS,
            "submit": {"master": "embedded"},
            "slots": {"min": EXECUTORS // 2, "max": MOST_EXECUTORS, "start": EXECUTORS},
            "executor": {"cores": 1, "memory_mb": 512},
            "objective": {"max_lag_s": MAX_LAG_S, "catch_up_s": CATCH_UP_S},
            "mode": "auto",
            "period_s": period_s,
            "guards": {"cool_down_s": 0},
            "placement": {"options": {"framework": method.framework or "non_integrated"}},
        }
    )


def by_number(spec: PipelineSpec) -> Deployment:
    """Return the first Deployment: as many partitions on each executor, in turn."""
    first = spec.first_deployment()
    placed = {OPERATOR: tuple(number % EXECUTORS for number in range(PARTITIONS))}
    return replace(first, apps={spec.app: replace(first.apps[spec.app], placement=placed)})


def run_method(cluster: Cluster, name: str, method: Method, seed: int, length_s: int, period_s: float) -> Run:
    """Run the stream to its end, and compare its results with what arrived.

    Args:
        cluster: The cluster.
        name: Name of the run, a folder.
        method: Who decides.
        seed: Chooses the hot partitions.
        length_s: Length of the stream, seconds.
        period_s: Seconds between two evaluations.

    Raises:
        RuntimeError: If the query does not start, or does not finish the stream.
    """
    home = cluster.home(name)
    spec = spec_for(home.root, method, hot_partitions(seed), period_s)
    pipeline = Pipeline(cluster, home, spec, by_number(spec))
    source, results = home.root / "data" / "source", home.root / "data" / "counts.json"
    every = pa.table({"id": pa.array(range(round(2 * rows_per_s() * length_s)), pa.int64())})
    feed, begun = Feed(source, every, every.schema), time.time()
    with pipeline.running(), pipeline.controlled("live") if method.framework else nullcontext():
        with feed.at(lambda _: rows_per_s()):
            time.sleep(length_s)
        wait_until(lambda: sum(counts(results)) >= feed.committed, "all rows processed", every_s=READ_S)
    timeline = read_timeline(spec, pipeline.tables, source)
    at = timeline.begun.timestamp()
    done_s = float(timeline.batch_s[np.searchsorted(timeline.batch_rows, timeline.arrival_rows[-1])])
    lives = [life for life in cluster.executors.lives() if life.begin >= begun]
    held = [Cores(life.begin - at, None if life.end is None else life.end - at, life.cores) for life in lives]
    found, wanted = sorted(counts(results)), sorted(expected(feed.committed, hot_partitions(seed)))
    versions = pipeline.tables.deployments.versions(spec.name, ALL)
    contents = [version.apps[spec.app] for _, version in sorted(versions, key=lambda of: of[1].version)]
    return Run(
        {
            "core_seconds": core_seconds(held, float(timeline.arrival_s[0]), done_s),
            "behind_s": behind_s(timeline, done_s, MAX_LAG_S),
            "longest_lag_s": longest_lag_s(timeline, done_s),
            "slots_added": slots_added(contents),
            "moves": moves(contents),
            "rows_lost": sum(max(0, b - a) for a, b in zip(found, wanted, strict=True)),
            "rows_doubled": sum(max(0, a - b) for a, b in zip(found, wanted, strict=True)),
        }
    )


def slots_added(contents: Sequence[AppDeployment]) -> int:
    """Return the slots that were added, not counting those that were freed.

    Args:
        contents: The app in each version, oldest first.
    """
    return sum(max(0, after.slots - before.slots) for before, after in pairwise(contents))


def moves(contents: Sequence[AppDeployment]) -> int:
    """Return how often a partition was moved to another executor.

    Args:
        contents: The app in each version, oldest first.
    """
    named = [content.placement.get(OPERATOR, ()) for content in contents]
    return sum(
        NOWHERE not in (a, b) and a != b for one, other in pairwise(named) for a, b in zip(one, other, strict=False)
    )


def counts(results: Path) -> list[int]:
    """Return the rows counted of each key."""
    return list(json.loads(results.read_text(encoding="utf-8")).values()) if results.exists() else []


def expected(rows: int, hot: Sequence[int]) -> list[int]:
    """Return the rows of each key.

    Args:
        rows: Rows that arrived.
        hot: The hot partitions.
    """
    return rows_of_partitions(rows, [HOT_ROWS if p in hot else COLD_ROWS for p in range(PARTITIONS)])

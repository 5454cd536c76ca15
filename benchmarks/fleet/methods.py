"""Ways to place streams: ours, two of the paper's, and fixed numbers of nodes. All run the same function.

The paper's ARD and DRF-M get what ours gets: the rates that the nodes report, and a capacity that is learned. Fixed
nodes know all rates in advance: their number is right for the peak, or for the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fleet.assignments import Ints, even, needed, packed
from benchmarks.fleet.workloads import Floats
from millrace.model.spec import PipelineSpec

SCRIPT = Path(__file__).resolve().parent / "scripts" / "ingest.py"
SLOTS, MEMORY_MB = 12, 1024
"""Enough slots that the fixed costs of batches are small against the waits for rows."""
WAIT_MS = 20
"""Real wait per row."""
TRIGGER_MS = 15_000
FILL = 0.75
"""Share of its slots that a node may use."""
NODE_ROWS_PER_S = SLOTS * FILL * 1000 / WAIT_MS
"""Rows per second that a node takes."""
MOST_NODES = 6
SHORT_RUN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

Place = Callable[[Floats], Ints]
"""Returns the node of each stream, shape (S,), from rates known in advance, shape (T, S)."""


def on_fewest(rates: Floats) -> Ints:
    """Place streams on the fewest nodes of which none is ever overloaded."""
    return packed(rates, NODE_ROWS_PER_S, MOST_NODES)


def by_count(rates: Floats) -> Ints:
    """Place as many streams on each node; as many nodes as are needed on average."""
    return even(rates.shape[1], max(1, round(float(needed(rates, NODE_ROWS_PER_S).mean()))))


def on_one(rates: Floats) -> Ints:
    """Place all streams on one node, which is enough at first."""
    return even(rates.shape[1], 1)


@dataclass(frozen=True)
class Method:
    """A way to place streams.

    Attributes:
        name: The method.
        place: Places the streams at first.
        planner: Option ``method`` of the optimizer that moves them; None if they never move.
    """

    name: str
    place: Place = on_one
    planner: str | None = None


OURS, DRFM = Method("horizon", planner="horizon"), Method("drfm", planner="drfm")
FIXED, EVEN = Method("fixed_peak", on_fewest), Method("even", by_count)
METHODS = (OURS, DRFM, Method("ard", planner="ard"), FIXED, EVEN)
QUICK_METHODS = (OURS, FIXED)


def spec_for(home: Path, method: Method, first: Ints, period_s: float) -> PipelineSpec:
    """Return the fleet of a method.

    Args:
        home: Folder of its home.
        method: The method.
        first: First node of each stream; without a planner, there are no other nodes.
        period_s: Seconds between two evaluations, and in which streams are counted.
    """
    started = int(first.max()) + 1
    bounds = {"min": 1, "max": MOST_NODES, "start": started} if method.planner else started
    return fleet_spec(home, bounds, period_s, {"method": method.planner} if method.planner else {})


def fleet_spec(
    home: Path,
    nodes: Any,
    period_s: float,
    options: dict[str, Any],
    *,
    wait_ms: int = WAIT_MS,
    trigger_ms: int = TRIGGER_MS,
    spark_writes: bool = False,
) -> PipelineSpec:
    """Return a fleet that copies the tables of ``landing`` to ``bronze``.

    Args:
        home: Folder of its home.
        nodes: The key ``nodes`` of the fleet.
        period_s: See :func:`spec_for`.
        options: Options of the optimizer that moves streams.
        wait_ms: Real wait per row.
        trigger_ms: Shortest trigger interval of a stream.
        spark_writes: Whether Spark's writer for Delta tables writes the copies.
    """
    data = home / "data"
    given = {
        "landing": str(landing(home)),
        "bronze": str(bronze(home)),
        "wait_ms": wait_ms,
        "trigger_ms": trigger_ms,
        "spark_writes": spark_writes,
    }
    raw = {
        "name": "fleet",
        "fleet": {
            "script": str(SCRIPT),
            "checkpoints": str(data / "checkpoints"),
            "streams": {"folders": f"{landing(home)}/*"},
            "nodes": nodes,
            "node": {"slots": SLOTS, "memory_mb": MEMORY_MB},
            "options": given,
        },
        "admission": {"report_s": round(period_s), "target_utilisation": FILL, "options": options},
        "submit": {"master": "local", "conf": {"spark.driver.extraJavaOptions": SHORT_RUN}},
        "max_parallelism": 1,
        "objective": {"max_reconfigurations_per_hour": 3600},
        "mode": "auto",
        "period_s": period_s,
        "guards": {"cool_down_s": 0},
        "quality": {"max_age_s": 60, "max_gap_s": 120},
    }
    return PipelineSpec.model_validate(raw)


def landing(home: Path) -> Path:
    """Return the folder of the streams' tables."""
    return home / "data" / "landing"


def bronze(home: Path) -> Path:
    """Return the folder of the tables that they are copied to."""
    return home / "data" / "bronze"

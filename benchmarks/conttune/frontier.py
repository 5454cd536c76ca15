"""Frontiers: a tuner's reconfigurations and bad choices against core-seconds, over the headroom that it gets.

One setting proves little, because headroom buys calm. So each rival setting is compared with flow at equal
core-seconds: interpolated linearly between two of flow's settings; beyond flow's largest headroom, with that setting,
which costs less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.conttune.figures import BENCH
from benchmarks.conttune.methods import FLINK, FLOW_FRONTIER
from benchmarks.conttune.targets import BAD, CORES, RECONFIGURATIONS
from benchmarks.record import Record

ETL_CORES, ETL_RECONFIGURATIONS, ETL_BAD = 1.18, 0.25, 0.001
"""On the recorded ETL rates flow must be this calm at these core-seconds."""


@dataclass(frozen=True)
class Point:
    """One setting of a tuner: core-seconds divided by the oracle's, reconfigurations and bad choices per tuning."""

    method: str
    cores: float
    reconfigurations: float
    bad: float

    def better(self, other: Point) -> bool:
        """Return whether this is at least as good in all three and better in one."""
        ours, its = (self.cores, self.reconfigurations, self.bad), (other.cores, other.reconfigurations, other.bad)
        return ours != its and all(a <= b for a, b in zip(ours, its, strict=True))


def points(records: Sequence[Record], scenario: str, methods: Sequence[str]) -> list[Point]:
    """Return the measured settings of a tuner on a scenario, by rising core-seconds."""
    found = {(r.method, r.figure): r.value for r in records if r.scenario == scenario and r.method in methods}
    measured = [m for m in methods if (m, CORES) in found]
    made = [Point(m, found[m, CORES], found[m, RECONFIGURATIONS], found[m, BAD]) for m in measured]
    return sorted(made, key=lambda point: point.cores)


def at(frontier: Sequence[Point], cores: float) -> Point | None:
    """Return a tuner's figures at given core-seconds; None if all of its settings need more.

    Args:
        frontier: By rising core-seconds.
        cores: Core-seconds divided by the oracle's.
    """
    below = [p for p in frontier if p.cores <= cores]
    above = [p for p in frontier if p.cores > cores]
    if not below or not above:
        return below[-1] if below else None
    a, b = below[-1], above[0]
    share = (cores - a.cores) / (b.cores - a.cores)

    def between(x: float, y: float) -> float:
        return x + (y - x) * share

    return Point("", cores, between(a.reconfigurations, b.reconfigurations), between(a.bad, b.bad))


def compared(records: Sequence[Record], scenario: str) -> Iterator[Record]:
    """Yield flow against Flink's settings on a scenario, with targets; nothing if either was not measured."""
    ours, its = points(records, scenario, FLOW_FRONTIER), points(records, scenario, FLINK)
    runs = next((r.n for r in records if (r.scenario, r.method) == (scenario, "flow")), 0)
    default = next((p for p in ours if p.method == "flow"), None)
    if default is None:
        return
    if its:
        beaten = sum(point.better(default) for point in its)
        yield Record(BENCH, scenario, "flow", "frontier_dominated", beaten, "settings", n=runs)
    for rival in its:
        same = at(ours, rival.cores)
        if same is not None:
            yield from _fewer(scenario, same, rival, runs)
    calm = at(ours, ETL_CORES) if scenario == "etl" else None
    if calm is not None:
        for name, value, limit in (
            ("reconfigurations", calm.reconfigurations, ETL_RECONFIGURATIONS),
            ("bad", calm.bad, ETL_BAD),
        ):
            figure = f"{name}_at_{ETL_CORES}_cores"
            yield Record(
                BENCH, scenario, "flow", figure, value, "1/tuning", n=runs, target=f"<={limit:g}", holds=value <= limit
            )


def _fewer(scenario: str, same: Point, rival: Point, runs: int) -> Iterator[Record]:
    pairs = {
        "reconfigurations": (same.reconfigurations, rival.reconfigurations),
        "bad": (same.bad, rival.bad),
    }
    for name, (value, its) in pairs.items():
        # there is no fewer than none: if the rival had none, nothing is left to improve
        target, holds = (f"<{its:.4g}", value < its) if its else ("<=0", value <= 0)
        figure = f"{name}_at_{rival.method}"
        yield Record(BENCH, scenario, "flow", figure, value, "1/tuning", n=runs, target=target, holds=holds)

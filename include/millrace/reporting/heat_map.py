"""State partitions by executor as rows and cells, for the console."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millrace.model.placement import PartitionLoads


@dataclass(frozen=True)
class Cell:
    """One partition on the executor that runs it.

    Attributes:
        partition: Its number.
        busy_s: Time that a batch keeps a core busy with it, seconds.
        heat: The same, as a share of the hottest partition's in the stage, 0..1.
        state_bytes: Size of its state; None if it was not measured.
    """

    partition: int
    busy_s: float
    heat: float
    state_bytes: int | None


@dataclass(frozen=True)
class HeatRow:
    """An executor, -1 if it is gone, with a cell per partition: None for partitions of other executors."""

    executor: int
    busy_s: float
    cells: Sequence[Cell | None]


@dataclass(frozen=True)
class HeatMap:
    """The operators of one stage, the numbers of its partitions, and one row per executor."""

    operators: str
    partitions: Sequence[int]
    rows: Sequence[HeatRow]


def heat_maps(groups: PartitionLoads) -> list[HeatMap]:
    """Return one map per stage."""
    return [_heat_map(groups, name) for name in dict.fromkeys(groups.operator)]


def _heat_map(groups: PartitionLoads, operators: str) -> HeatMap:
    here = [i for i, name in enumerate(groups.operator) if name == operators]
    hottest = max(groups.busy_s[i] for i in here) or 1.0
    rows = []
    for executor in sorted(set(groups.executor)):
        cells = [
            Cell(groups.partition[i], groups.busy_s[i], groups.busy_s[i] / hottest, groups.state_bytes[i])
            if groups.executor[i] == executor
            else None
            for i in here
        ]
        rows.append(HeatRow(executor, sum(cell.busy_s for cell in cells if cell), cells))
    return HeatMap(operators, [groups.partition[i] for i in here], rows)

from __future__ import annotations

from millrace.reporting.heat_map import heat_maps
from tests.optimizers.albic.partition_loads import FIRST, SECOND, groups


def test_heat_map_has_each_partition_once_on_its_worker() -> None:
    told = groups([4.0, 1.0], [0, 1, 1, -1], second=[0.0, 0.0], state_bytes=(5, None, 0, 0))
    first, second = heat_maps(told)
    assert (first.operators, first.partitions, second.operators) == (FIRST, [0, 1], SECOND)
    assert [(row.executor, row.busy_s) for row in first.rows] == [(-1, 0.0), (0, 4.0), (1, 1.0)]
    cells = [[cell and (cell.partition, cell.heat, cell.state_bytes) for cell in row.cells] for row in first.rows]
    assert cells == [[None, None], [(0, 1.0, 5), None], [None, (1, 0.25, None)]]
    assert [cell.heat for row in second.rows for cell in row.cells if cell] == [0.0, 0.0]

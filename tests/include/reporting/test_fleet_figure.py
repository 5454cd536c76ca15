"""Drawings of a fleet."""

from __future__ import annotations

import math
import re

import pytest

from millrace.fleet.discovery import Found
from millrace.fleet.streams import Phase
from millrace.model.deployment import node_name
from millrace.reporting.fleet_figure import BAR, BAR_WIDTH, CELLS, forecast_figure, stream_map
from millrace.reporting.fleet_reports import NodeState
from millrace.reporting.fleet_view import FleetView, fleet_view
from millrace.reporting.history_figure import LEFT, RIGHT, WIDTH
from tests.include.reporting.fleets import at, decided, deployed, planned, reports

NODES = {"a": 0, "b": 0, "c": 1}
CAME = {"a": 100.0, "b": 300.0, "c": 1500.0}


def fleet(new: tuple[str, ...] = ()) -> FleetView:
    told = reports(
        (*at(Phase.RUNNING, "a"), *at(Phase.FAILED, "b", failures=1)),
        (*at(Phase.RUNNING, "c"), *at(Phase.BLOCKED, "a", holder="x")),
        NodeState.STANDBY,
    )
    return fleet_view(deployed({**NODES, "a": 1}), told, Found(new), None, decided(planned(NODES, CAME)))


def test_each_stream_is_a_cell_at_its_node_as_hot_as_its_load() -> None:
    drawn = stream_map(fleet())
    assert [(row.name, row.caption) for row in drawn.rows] == [
        ("node0", "running, 2 streams"),
        ("node1", "running, 1 stream"),
    ]
    assert [[(cell.heat, cell.mark) for cell in row.cells] for row in drawn.rows] == [
        [(math.sqrt(300 / 1500), "fails"), (math.sqrt(100 / 1500), "moves")],
        [(1.0, "")],
    ]
    assert drawn.rows[1].cells[0].title.startswith("c: running, 1,500 rows/s (150 % of a node), forecast 1,650")
    assert drawn.standby == ("node2",)


def test_load_beyond_the_capacity_fills_the_bar_and_no_more() -> None:
    within, beyond = (row.bar for row in stream_map(fleet()).rows)
    assert within is not None and beyond is not None
    assert (within.load, within.over, within.forecast) == (BAR_WIDTH * 0.4, False, None), "a was planned here"
    assert (beyond.load, beyond.over) == (BAR_WIDTH, True)
    assert beyond.text == "1,500 of 1,000 rows/s, 150 %"


def test_load_of_the_next_period_is_a_mark_on_the_bar() -> None:
    told, decision = reports(at(Phase.RUNNING, "a")), decided(planned({"a": 0}, CAME))
    (row,) = stream_map(fleet_view(deployed({"a": 0}), told, Found(()), None, decision)).rows
    assert row.bar is not None and row.bar.forecast == pytest.approx(BAR + 0.1 * BAR_WIDTH)
    assert row.bar.text == "100 of 1,000 rows/s, 10 %, next 10 %"


def test_streams_without_a_node_come_last() -> None:
    last = stream_map(fleet(("new",))).rows[-1]
    assert (last.name, last.caption, last.bar, [cell.mark for cell in last.cells]) == (
        "no node yet", "1 stream", None, ["waits"],
    )  # fmt: skip


def test_many_streams_fill_lines_that_do_not_overlap() -> None:
    names = [f"s{n}" for n in range(500)]
    nodes = {name: n % 3 for n, name in enumerate(names)}
    told = [at(Phase.RUNNING, *(name for name in names if nodes[name] == node)) for node in range(3)]
    drawn = stream_map(fleet_view(deployed(nodes), reports(*told), Found(()), None, None))
    cells = [cell for row in drawn.rows for cell in row.cells]
    assert len(cells) == len({(cell.x, cell.y) for cell in cells}) == 500
    assert {cell.heat for cell in cells} == {None} and all(row.bar is None for row in drawn.rows)
    assert max(cell.x for cell in cells) + drawn.side < BAR
    assert max(cell.y for cell in cells) + drawn.side < drawn.height
    for above, below in zip(drawn.rows, drawn.rows[1:], strict=False):
        assert max(cell.y for cell in above.cells) + drawn.side < below.y
    assert len({cell.x for cell in cells}) == CELLS
    assert [row.name for row in drawn.rows] == list(map(node_name, range(3)))


def test_forecast_and_reality_are_steps_over_the_newest_periods() -> None:
    figure = forecast_figure(fleet().plan)
    assert figure is not None
    came, forecast = figure.panels[0].lines
    top, bottom = figure.panels[0].top, figure.panels[0].bottom
    heights = {float(label): y for y, label in figure.panels[0].ticks}
    assert (came.name, forecast.name) == ("arrival", "forecast")
    middle = LEFT + (WIDTH - RIGHT - LEFT) / 2
    assert came.path == f"M{LEFT},{heights[100]:g}H{middle:g}V{heights[100]:g}H{WIDTH - RIGHT}"
    levels = [float(y) for y in re.findall(r"[,V]([\d.]+)", forecast.path)]
    assert top <= levels[1] < heights[100] < levels[0] < bottom, "90, then 120"
    assert figure.panels[0].title == "rows/s, all streams"


def test_nothing_is_drawn_before_a_forecast_has_come_due() -> None:
    first = planned(NODES, CAME, total_came=(), total_forecast=(), error=None, total_error=None)
    view = fleet_view(deployed(NODES), reports(), Found(()), None, decided(first))
    assert forecast_figure(view.plan) is None and forecast_figure(None) is None


def test_silent_streams_are_drawn() -> None:
    quiet = planned(NODES, dict.fromkeys(NODES, 0.0), total_came=(0.0,), total_forecast=(0.0,))
    view = fleet_view(deployed(NODES), reports(at(Phase.RUNNING, *NODES)), Found(()), None, decided(quiet))
    assert {cell.heat for row in stream_map(view).rows for cell in row.cells} == {0.0}
    assert forecast_figure(view.plan) is not None

"""A fleet as a person sees it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.fleet.discovery import Found
from millrace.fleet.streams import Phase
from millrace.model.admission import LoadUnit
from millrace.model.codec import to_json
from millrace.model.signals import QuerySignals
from millrace.optimizers.conformance.builders import app_signals, signals
from millrace.reporting.fleet_reports import NodeState
from millrace.reporting.fleet_view import FleetView, StreamView, fleet_view, load_text
from tests.include.reporting.fleets import at, decided, deployed, planned, reports

NODES = {"a": 0, "b": 0, "c": 1}
CAME = {"a": 100.0, "b": 300.0, "c": 500.0}
UP = reports(at(Phase.RUNNING, "a", "b"), at(Phase.RUNNING, "c"), NodeState.STANDBY)
NONE = Found(())


def stream(view: FleetView, name: str) -> StreamView:
    return next(stream for stream in view.streams if stream.stream == name)


def test_nodes_have_their_load_now_and_expected_against_their_capacity() -> None:
    view = fleet_view(deployed(NODES), UP, NONE, None, decided(planned(NODES, CAME)))
    node0, node1, node2 = view.nodes
    assert (node0.streams, node0.load, node0.forecast, node0.capacity, node0.share) == (2, 400, 400, 1000, 0.4)
    assert (node1.state, node1.load, node1.share) == (NodeState.RUNNING, 500, 0.5)
    assert (node2.state, node2.streams, node2.load, node2.forecast) == (NodeState.STANDBY, 0, 0, 0)
    assert [s.stream for s in view.streams] == ["b", "a", "c"], "by node, the largest first"
    assert (stream(view, "c").load, stream(view, "c").share) == (500, 0.5)
    assert stream(view, "c").forecast == pytest.approx(550)
    assert view.well and view.unit is LoadUnit.ROWS


def test_load_that_a_plan_expects_is_shown_only_if_its_streams_are_there() -> None:
    plan = planned({**NODES, "b": 1}, CAME, before=NODES)
    view = fleet_view(deployed(NODES), UP, NONE, None, decided(plan))
    assert [node.forecast for node in view.nodes] == [None, None, 0], "b did not move"
    moved = fleet_view(deployed({**NODES, "b": 1}), UP, NONE, None, decided(plan))
    assert [node.forecast for node in moved.nodes] == [100, 800, 0]


def test_stream_is_on_its_old_node_until_the_new_one_runs_it() -> None:
    fleet = deployed({**NODES, "b": 1})
    for old, new in ((Phase.RUNNING, Phase.QUEUED), (Phase.STOPPING, Phase.BLOCKED), (Phase.RUNNING, Phase.STARTING)):
        nodes = reports(at(old, "b"), at(new, "b", holder="driver 7"))
        moving = stream(fleet_view(fleet, nodes, NONE, None, None), "b")
        assert (moving.node, moving.moves_to, moving.told) == ("node0", "node1", "")
        assert moving.state_text == f"{old}, moves to node1" and moving.notable and not moving.failing
    both = reports(at(Phase.RUNNING, "b"), at(Phase.RUNNING, "b"))
    moved = stream(fleet_view(fleet, both, NONE, None, None), "b")
    assert (moved.node, moved.moves_to) == ("node1", None), "the old node reports a moment late"
    gone = reports(at(Phase.FAILED, "b"), ())
    waits = stream(fleet_view(fleet, gone, NONE, None, None), "b")
    assert (waits.node, waits.moves_to, waits.state) == ("node1", None, "waits for its node")


def test_streams_of_different_nodes_that_write_to_one_sink_are_named() -> None:
    own, shared = "path:/bronze/a", "path:/bronze/all"
    moves = (*at(Phase.RUNNING, "a", sink=own), *at(Phase.STOPPING, "b", sink=shared))
    nodes = reports(moves, (*at(Phase.BLOCKED, "b", sink=shared), *at(Phase.RUNNING, "c")))
    assert fleet_view(deployed(NODES), nodes, NONE, None, None).problems == ()
    nodes = reports(moves, at(Phase.RUNNING, "c", sink=shared))
    (problem,) = fleet_view(deployed(NODES), nodes, NONE, None, None).problems
    assert problem == "Streams b, c write to the same /bronze/all: give each a sink of its own."


def test_stream_that_fails_on_its_new_node_fails_while_the_old_one_still_stops_it() -> None:
    nodes = reports(at(Phase.STOPPING, "b"), at(Phase.FAILED, "b", failures=1, error="no table b"))
    moving = stream(fleet_view(deployed({**NODES, "b": 1}), nodes, NONE, None, None), "b")
    assert moving.failing and moving.moves_to == "node1" and "no table b" in moving.told


def test_stream_that_another_process_blocks_names_it() -> None:
    nodes = reports((), at(Phase.BLOCKED, "c", holder="process 7 on host x"))
    told = stream(fleet_view(deployed(NODES), nodes, NONE, None, None), "c")
    assert told.state == "waiting for the lock" and "process 7 on host x" in told.told and not told.failing


def test_failing_stream_has_its_error_and_the_fleet_is_not_well() -> None:
    nodes = reports(at(Phase.RUNNING, "a"), at(Phase.STARTING, "c", failures=2, error="no table c"))
    view = fleet_view(deployed(NODES), nodes, NONE, None, None)
    assert stream(view, "c").failing and "no table c" in stream(view, "c").told
    assert view.nodes[1].failing == 1 and not view.well


@pytest.mark.parametrize(
    ("state", "told", "well"),
    [
        (NodeState.STARTING, "waits for its node", True),
        (NodeState.DOWN, "its node is down", False),
        (NodeState.STOPPED, "stopped", True),
    ],
)
def test_stream_that_no_driver_reports_waits(state: NodeState, told: str, well: bool) -> None:
    view = fleet_view(deployed(NODES), reports((), state), NONE, None, None)
    assert stream(view, "c").state == told and view.well is well


def test_new_stream_and_one_of_a_node_that_is_gone_wait_for_a_node_last() -> None:
    view = fleet_view(deployed({**NODES, "old": 9}), UP, Found(("new",), ("folder x is no stream",)), None, None)
    assert [(s.stream, s.node, s.state) for s in view.streams][-2:] == [
        ("new", "", "waits for a node"),
        ("old", "", "waits for a node"),
    ]
    assert view.problems == ("folder x is no stream",)


def test_stream_that_was_dropped_is_shown_until_it_has_stopped() -> None:
    nodes = reports(at(Phase.RUNNING, "a"), at(Phase.STOPPING, "gone"))
    dropped = stream(fleet_view(deployed({"a": 0}), nodes, NONE, None, None), "gone")
    assert (dropped.node, dropped.state, dropped.moves_to) == ("node1", "stopping", None)


def test_rows_are_those_of_the_node_that_runs_the_stream() -> None:
    def query(name: str, rate: float, waits: int) -> QuerySignals:
        return QuerySignals(name, rate, waits, None, 1, None)

    node0 = app_signals(2, 9.0, None, app="node0", queries=(query("a", 5.0, 50), query("c", 1.0, 10)))
    node1 = app_signals(2, 7.0, None, app="node1", backlog_rows=70)
    view = fleet_view(deployed(NODES), UP, NONE, replace(signals(node0), apps=(node0, node1)), None)
    figures = {s.stream: (s.arrival_rows_per_s, s.backlog_rows) for s in view.streams}
    assert figures == {"a": (5.0, 50), "b": (None, None), "c": (7.0, 70)}, "c is the only query of node1"
    listed = replace(node1, queries=(query("c", 6.0, 60),))
    view = fleet_view(deployed(NODES), UP, NONE, replace(signals(node0), apps=(node0, listed)), None)
    assert stream(view, "c").arrival_rows_per_s == 6.0


def test_list_of_many_streams_has_those_that_fail_or_move_then_the_largest() -> None:
    names = [f"s{n:03}" for n in range(500)]
    nodes, came = dict.fromkeys(names, 0), {name: float(n) for n, name in enumerate(names)}
    told = (*at(Phase.FAILED, "s001", failures=1), *at(Phase.STARTING, "s002"), *at(Phase.RUNNING, *names[3:], "s000"))
    view = fleet_view(deployed(nodes), reports(told), NONE, None, decided(planned(nodes, came)))
    assert [s.stream for s in view.listed(4)] == ["s499", "s498", "s002", "s001"], "in the order of all streams"
    assert [s.stream for s in view.listed(1)] == ["s001"]
    assert len(view.listed(1000)) == 500
    assert len(to_json(view)) < 500 * 400


def test_loads_in_slots_have_decimals() -> None:
    plan = planned(NODES, {"a": 0.125, "b": 0.5, "c": 1.0}, unit=LoadUnit.SLOTS, capacity=1.6)
    view = fleet_view(deployed(NODES), UP, NONE, None, decided(plan))
    assert view.unit is LoadUnit.SLOTS and view.nodes[1].share == 0.625
    assert [load_text(value, view.unit) for value in (0.125, 1234.0, None)] == ["0.12", "1,234.00", ""]
    assert load_text(1234.4, LoadUnit.ROWS) == "1,234"


def test_fleet_without_plan_and_measurements_shows_no_figures() -> None:
    view = fleet_view(deployed(NODES), UP, NONE, None, None)
    assert {(n.load, n.forecast, n.capacity, n.share) for n in view.nodes} == {(None,) * 4}
    assert {(s.load, s.forecast, s.share, s.arrival_rows_per_s) for s in view.streams} == {(None,) * 4}
    assert view.plan is None and view.well

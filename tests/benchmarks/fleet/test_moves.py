"""Moves of streams: their gap, the batches of other streams, and which node ran a stream."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from benchmarks.fleet.moves import (
    Batch,
    Move,
    by_stream,
    gap_s,
    moves,
    next_trigger,
    nodes_by_period,
    ordered,
    ordered_at,
    others_ratio,
)
from benchmarks.graph.lag import Steps
from millrace.model.deployment import Deployment
from millrace.model.telemetry import BatchMetrics

ARRIVING = Steps(np.arange(0.0, 200.0), np.arange(5.0, 1005.0, 5.0))
"""Five rows each second."""


def batch(node: str, begin: float, end: float, rows: int = 50, trigger_s: float = 10.0) -> Batch:
    return Batch(node, begin, end, rows, trigger_s)


def deployed(version: int, **ingest: int) -> Deployment:
    return Deployment("p", version, True, {}, ingest=ingest)


def metrics(app: str, query: str, end_s: float, rows: int, ms: int) -> BatchMetrics:
    at = datetime.fromtimestamp(end_s, UTC)
    return BatchMetrics("p", app, query, at, 1, 0, 1, 4, rows, durations_ms={"triggerExecution": ms}, trigger_s=5.0)


def test_batches_are_ordered_by_stream_whichever_node_ran_them() -> None:
    rows = [metrics("node1", "a", 20, 7, 2000), metrics("node0", "a", 10, 5, 1000), metrics("node0", "x", 1, 1, 1)]
    assert by_stream(rows, ["a", "b"]) == {
        "a": [Batch("node0", 9.0, 10.0, 5, 5.0), Batch("node1", 18.0, 20.0, 7, 5.0)],
        "b": [],
    }


def test_move_is_where_the_node_changes() -> None:
    ran = [batch("node0", 10, 12), batch("node0", 20, 22), batch("node1", 25, 27), batch("node1", 30, 32)]
    assert moves({"a": ran, "b": [batch("node0", 1, 2)]}) == [Move("a", ran[1], ran[2])]


@pytest.mark.parametrize(
    ("begin", "gap"),
    [
        (25.0, 0.0),  # before the trigger at 30 at which the old node would have started
        (30.0, 0.0),
        (34.0, 4.0),
    ],
)
def test_gap_counts_from_the_trigger_at_which_the_old_node_would_have_started(begin: float, gap: float) -> None:
    ran = [batch("node0", 10, 12), batch("node0", 20, 22), batch("node1", begin, begin + 2), batch("node1", 50, 52)]
    assert gap_s(Move("a", ran[1], ran[2]), ran, ARRIVING) == pytest.approx(gap)


def test_gap_contains_what_the_first_batch_takes_longer_than_usual() -> None:
    ran = [batch("node0", 10, 12), batch("node0", 20, 22), batch("node1", 31, 38), batch("node1", 40, 42)]
    assert gap_s(Move("a", ran[1], ran[2]), ran, ARRIVING) == pytest.approx(38 - 30 - 2)


def test_gap_begins_when_rows_arrive_if_none_were_waiting() -> None:
    ran = [batch("node0", 10, 12, rows=3), batch("node1", 71, 73, rows=2)]
    arrived = Steps(np.array([1.0, 65.0]), np.array([3.0, 5.0]))
    assert gap_s(Move("a", ran[0], ran[1]), ran, arrived) == pytest.approx(73 - 70 - 2)


def test_gap_of_a_stream_without_a_trigger_begins_at_the_end_of_its_last_batch() -> None:
    ran = [batch("node0", 10, 12, trigger_s=0.0), batch("node1", 15, 17, trigger_s=0.0)]
    assert gap_s(Move("a", ran[0], ran[1]), ran, ARRIVING) == pytest.approx(3.0)
    assert (next_trigger(20.0, 10.0), next_trigger(20.5, 10.0), next_trigger(20.5, 0.0)) == (30.0, 30.0, 20.5)


def test_other_batches_are_compared_with_those_of_equal_times_before() -> None:
    move = Move("a", batch("node0", 95, 98), batch("node1", 108, 110))  # ordered at 100, so it lasts 10 s
    others = {
        "b": [batch("node0", begin, begin + 4) for begin in (51, 61, 71, 81, 91)],
        "c": [batch("node1", 55, 56), batch("node1", 65, 73), batch("node1", 112, 130)],  # the last is too late
        "d": [batch("node0", 103, 109)],
        "e": [batch("node2", 95, 120)],
        "a": [batch("node0", 40, 98), batch("node1", 108, 110)],
    }
    assert others_ratio(move, 100.0, others) == pytest.approx(6 / 4)
    assert others_ratio(move, 100.0, {"a": others["a"], "d": others["d"]}) is None
    assert others_ratio(move, 100.0, {"a": others["a"], "b": others["b"]}) is None


def test_move_is_ordered_by_the_version_that_leads_to_the_node_it_runs_on() -> None:
    versions = [
        (1.0, deployed(1, a=0, b=0)),
        (20.0, deployed(2, a=1, b=0)),
        (30.0, deployed(3, a=1, b=1)),
        (90.0, deployed(4, a=0, b=1)),
        (95.0, deployed(5, a=1, b=1)),
    ]
    move = Move("a", batch("node0", 30, 32), batch("node1", 35, 37))
    assert ordered_at(move, versions) == 20.0
    assert ordered_at(replace(move, first=batch("node2", 35, 37)), versions) == 32.0
    assert ordered([version for _, version in versions]) == 4


def test_first_node_and_the_end_of_a_stream_are_no_moves() -> None:
    assert ordered([deployed(1, a=0), deployed(2, a=0, b=1), deployed(3, b=1)]) == 0


def test_node_of_a_period_is_that_of_the_last_batch_begun_by_its_middle() -> None:
    batches = {"a": [batch("node2", 108, 109), batch("node0", 114, 117), batch("node1", 126, 128)], "silent": []}
    assert nodes_by_period(batches, ["a", "silent"], 100.0, 4, 10.0).tolist() == [[2, 0], [0, 0], [0, 0], [1, 0]]

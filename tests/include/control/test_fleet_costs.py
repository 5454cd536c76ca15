"""What streams cost, learned from batches that share the slots of their node."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from millrace.control.fleet_costs import StreamCosts, learned_costs
from millrace.control.fleet_rows import read_rows
from millrace.lake.row_codec import batch_row
from millrace.lake.store import Lake
from millrace.model.telemetry import BatchMetrics
from tests.include.control.fleet_node import Node, Stream, fleet_spec
from tests.include.control.synthetic import START

BATCH_S, ROW_S = 0.3, 0.0004


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.create("telemetry/batches")
    return lake


def known(lake: Lake, minutes: float = 10) -> StreamCosts | None:
    """What is known so many minutes after the start."""
    now = START + timedelta(minutes=minutes)
    return learned_costs(read_rows(fleet_spec(), lake, START, now), now)


def learned(lake: Lake, rows: Iterable[BatchMetrics]) -> StreamCosts:
    lake.append("telemetry/batches", [batch_row(row) for row in rows])
    costs = known(lake)
    assert costs is not None
    return costs


def waves(t: float) -> float:
    """Rows per second that vary between 100 and 900."""
    return 500 + 400 * math.sin(t / 20)


def streams(count: int, trigger_s: float = 5.0, rate: float = 100.0) -> list[Stream]:
    return [Stream(f"s{i:02}", rate, BATCH_S, ROW_S, trigger_s) for i in range(count)]


@pytest.mark.parametrize("count", [1, 10, 20])
def test_costs_are_the_same_however_many_streams_share_the_node(lake: Lake, count: int) -> None:
    rows = Node(streams(count)).run(120)
    costs = learned(lake, rows)
    assert len(costs.stream) == count
    assert costs.batch_s == pytest.approx(np.full(count, BATCH_S), abs=0.03)
    assert costs.row_s == pytest.approx(np.full(count, ROW_S), rel=0.01)
    longest = max(row.duration_s for row in rows[count:])
    assert (longest > 5) == (count == 20), "the node of 20 streams must be overloaded, the others must not"


def test_costs_of_batches_that_run_back_to_back_are_the_same(lake: Lake) -> None:
    costs = learned(lake, Node(streams(6, trigger_s=0)).run(60))
    assert costs.batch_s == pytest.approx(np.full(6, BATCH_S), abs=0.03)
    assert costs.row_s == pytest.approx(np.full(6, ROW_S), rel=0.01)


def test_rows_that_vary_show_what_tasks_take_without_rows(lake: Lake) -> None:
    """A task of 0.2 s that reads nothing belongs to the batch, not to its rows."""
    told = [
        replace(row, operators=tuple(replace(o, useful_s=(o.useful_s or 0.0) + 0.2) for o in row.operators))
        for row in Node([Stream("a", waves, BATCH_S, ROW_S)]).run(200)
    ]
    costs = learned(lake, told)
    assert costs.row_s == pytest.approx([ROW_S], rel=0.1) and costs.batch_s == pytest.approx([BATCH_S], rel=0.1)
    steady = [replace(row, rows_in=500) for row in told]
    most = learned(lake, [replace(row, query="steady") for row in steady]).of(["steady"])
    assert most.row_s[0] > 1.2 * ROW_S, "if rows do not vary, all useful time is theirs"


def test_tasks_at_once_cost_their_useful_time(lake: Lake) -> None:
    costs = learned(lake, Node([Stream("a", 1000.0, 0.1, ROW_S, tasks=4)], slots=4).run(120))
    assert costs.row_s == pytest.approx([4 * ROW_S], rel=0.01) and costs.batch_s == pytest.approx([0.0], abs=0.01)


def test_without_useful_times_duration_counts(lake: Lake) -> None:
    costs = learned(lake, [replace(row, operators=()) for row in Node([Stream("a", waves, BATCH_S, ROW_S)]).run(200)])
    assert costs.row_s == pytest.approx([ROW_S], rel=0.15) and costs.batch_s == pytest.approx([BATCH_S], rel=0.15)


def test_first_batch_of_a_driver_does_not_count_unless_it_is_the_only_one(lake: Lake) -> None:
    first = Node(streams(1)).run(120)
    moved = [replace(row, app="node1") for row in first[:1]]  # cold again
    costs = learned(lake, [*first[:3], *(replace(row, time=row.time + timedelta(seconds=60)) for row in moved)])
    assert costs.batch_s == pytest.approx([BATCH_S], abs=0.03)
    alone = learned(lake, [replace(row, query="new", batch_id=0) for row in first[:1]]).of(["new"])
    assert alone.batch_s[0] > 2 * BATCH_S


def test_single_long_batches_do_not_count(lake: Lake) -> None:
    rows = Node(streams(1)).run(120)
    slow = [replace(row, durations_ms={"triggerExecution": 4000}) if i % 4 == 3 else row for i, row in enumerate(rows)]
    assert learned(lake, slow).batch_s == pytest.approx([BATCH_S], abs=0.03)


def test_batch_that_is_reported_twice_counts_once(lake: Lake) -> None:
    rows = Node(streams(4)).run(120)
    once, twice = learned(lake, rows), learned(lake, rows)
    assert (once.batch_s == twice.batch_s).all() and (once.row_s == twice.row_s).all()


def test_stream_without_batches_costs_what_the_others_do() -> None:
    known = StreamCosts(
        ("a", "b", "c"), np.array([1.0, 2.0, 9.0]), np.array([0.1, 0.2, 0.9]), np.array([5.0, 6.0, 7.0])
    )
    new = known.of(["b", "new"])
    assert (new.stream, new.batch_s.tolist(), new.row_s.tolist()) == (("b", "new"), [2.0, 2.0], [0.2, 0.2])
    assert new.rows.tolist() == [6.0, 6.0]


def test_other_apps_and_the_heartbeat_are_no_streams(lake: Lake) -> None:
    rows = Node(streams(1)).run(60)
    others = [replace(row, query="millrace-node") for row in rows] + [replace(row, app="totals") for row in rows]
    other = [replace(row, query="other", pipeline="another") for row in rows]
    lake.append("telemetry/batches", [batch_row(row) for row in [*others, *other]])
    assert known(lake) is None
    assert learned(lake, rows).stream == ("s00",)


def test_nothing_is_learned_without_recent_batches(lake: Lake) -> None:
    assert known(lake) is None
    rows = [replace(row, durations_ms={}, rows_in=0) for row in Node(streams(1)).run(30)]  # markers
    lake.append("telemetry/batches", [batch_row(row) for row in rows])
    assert known(lake) is None
    learned(lake, Node(streams(1)).run(30))
    assert known(lake, minutes=60) is None, "rows may cost something else by now"

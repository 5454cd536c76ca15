"""Loads of a fleet's streams in slots, and what they are behind with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from millrace.control.fleet_rows import HEARTBEAT
from millrace.control.fleet_streams import fleet_counts
from millrace.lake.control_tables import ControlTables
from millrace.lake.memories import MemoryStore
from millrace.lake.row_codec import batch_row
from millrace.lake.store import Lake
from millrace.model.admission import LoadUnit, StreamCounts
from millrace.model.codec import from_json, to_json
from millrace.model.telemetry import RUNNING, BatchMetrics
from tests.include.control.fleet_node import Node, Stream, fleet_spec
from tests.include.control.synthetic import START

BATCH_S, ROW_S, PERIOD_S = 0.3, 0.0004, 10


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.create()
    return lake


def at(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def told(
    lake: Lake, rows: Iterable[BatchMetrics], *exist: str, until_s: float = 120, **admission: object
) -> StreamCounts:
    """Counts of all streams that reported, and of those that exist besides."""
    rows = list(rows)
    lake.append("telemetry/batches", [batch_row(row) for row in rows])
    spec = fleet_spec(*sorted({row.query for row in rows} | set(exist)), **admission)
    counts = fleet_counts(spec, ControlTables(lake), None, START + at(until_s))
    assert counts is not None and counts.fleet
    return counts


def slots(counts: StreamCounts, stream: str) -> list[float | None]:
    """Load of a stream in each period."""
    place, load = counts.stream.index(stream), dict[int, float | None]()
    for period, index, ms in zip(counts.period, counts.index, counts.slot_ms, strict=True):
        if index == place:
            load[period] = None if ms is None else ms / 1000 / counts.period_s
    return [load.get(period, 0.0) for period in range(counts.periods)]


def usual(rate: float, interval_s: float) -> float:
    """Load of a stream in slots."""
    return rate * ROW_S + BATCH_S / interval_s


def settled(counts: StreamCounts, stream: str) -> list[float | None]:
    """Its loads but the first two, which lack what arrived before the first batch ended."""
    return slots(counts, stream)[2:]


def stream(name: str = "a", rate: float = 200.0, trigger_s: float = 5.0) -> Stream:
    return Stream(name, rate, BATCH_S, ROW_S, trigger_s)


def test_load_counts_rows_and_batches_in_slots(lake: Lake) -> None:
    counts = told(lake, Node([stream("a", 200), stream("b", 1000)]).run(120))
    assert (counts.unit, counts.slots, counts.utilisation) == (LoadUnit.SLOTS, 2, 0.75)
    assert settled(counts, "a") == pytest.approx([usual(200, 5)] * (counts.periods - 2), rel=0.1)
    assert settled(counts, "b") == pytest.approx([usual(1000, 5)] * (counts.periods - 2), rel=0.1)
    assert len(counts.rows) == len(counts.slot_ms) == len(counts.period) == len(counts.index)
    assert sum(n or 0 for n in counts.rows) > 0.9 * 1200 * PERIOD_S * (counts.periods - 2), "rows are still known"
    assert from_json(StreamCounts, to_json(counts)) == counts


def test_utilisation_is_the_specs(lake: Lake) -> None:
    assert told(lake, Node([stream()]).run(60), until_s=60, target_utilisation=0.5).utilisation == 0.5


def test_load_of_an_overloaded_node_is_what_its_streams_would_take_in_time(lake: Lake) -> None:
    """Twenty streams would need 20 x 0.3 / 5 slots for their batches alone, and the node has two."""
    node = Node([stream(f"s{i:02}", 200) for i in range(30)])
    rows = node.run(200)
    assert len(rows) < 0.9 * 30 * 200 / 5, "batches must be late"
    counts = told(lake, rows, until_s=200)
    total = [sum(slots(counts, name)[period] or 0.0 for name in counts.stream) for period in range(4, counts.periods)]
    assert sum(total) / len(total) == pytest.approx(30 * usual(200, 5), rel=0.1)


def test_batches_back_to_back_count_once_per_half_of_the_longest_lag(lake: Lake) -> None:
    rows = Node([stream(trigger_s=0)]).run(120)
    assert len(rows) > 120 / BATCH_S / 2, "a batch must follow the other"
    counts = told(lake, rows)
    assert settled(counts, "a") == pytest.approx([usual(200, 15)] * (counts.periods - 2), rel=0.1)


def test_batch_of_a_long_interval_counts_in_all_its_periods(lake: Lake) -> None:
    rows = Node([replace(stream(rate=0.0), arrived=1.0, trigger_s=60), stream("often")]).run(180)
    steady = [replace(rows[0], time=START + at(60 * n + 1), batch_id=n) for n in range(3)]
    load = slots(told(lake, [*(row for row in rows if row.query != "a"), *steady], until_s=180), "a")
    cost = load[3]
    assert cost and load[1:12] == pytest.approx([cost] * 11, rel=0.01)
    assert load[13:] == [None] * (len(load) - 13), "the next batch will tell"


def test_stream_with_rows_now_and_then_counts_the_batches_that_it_ran(lake: Lake) -> None:
    """Rows come every 30 s: a batch counts for its interval of 5 s, not until the next one."""
    burst = Stream("a", lambda t: 1000.0 if t % 30 < 1 else 0.0, BATCH_S, ROW_S)
    load = settled(told(lake, Node([burst, stream("often")]).run(150), until_s=150), "a")
    assert sum(n or 0.0 for n in load[:9]) / 9 == pytest.approx((1000 * ROW_S + 2 * BATCH_S) / 30, rel=0.15)
    assert min(n or 0.0 for n in load) == 0.0


def test_batch_that_still_runs_counts(lake: Lake) -> None:
    """It takes the place of the batches that would have run in time."""
    rows = Node([stream("a"), stream("b")]).run(100)
    last = [row for row in rows if row.query == "a"][-1]
    marks = [
        replace(last, time=START + at(100 + n), rows_in=0, durations_ms={RUNNING: 1000 * n}) for n in range(1, 80, 3)
    ]
    load = slots(told(lake, [*rows, *marks], until_s=180), "a")
    assert load[11:] == pytest.approx([BATCH_S / 5] * (len(load) - 11), rel=0.05), "no rows have arrived since"


def test_new_stream_is_expected_to_load_as_the_median_of_the_others(lake: Lake) -> None:
    rows = Node([stream("a", 100), stream("b", 200), stream("c", 2000)]).run(120)
    counts = told(lake, rows, "new")
    assert slots(counts, "new")[-1] == pytest.approx(slots(counts, "b")[-1])
    assert slots(counts, "new")[:-1] == [0.0] * (counts.periods - 1)


def test_silent_stream_keeps_its_node_and_takes_next_to_nothing(lake: Lake) -> None:
    rows = Node([stream()]).run(120)
    idle = [replace(rows[0], query="idle", rows_in=0, durations_ms={}, time=START + at(5 * n)) for n in range(24)]
    counts = told(lake, [*rows, *idle])
    assert slots(counts, "idle") == [0.0] * (counts.periods - 1) + [1 / 1000 / PERIOD_S]


def test_load_of_a_stream_whose_node_has_died_is_not_known(lake: Lake) -> None:
    alive, dead = Node([stream("a"), stream("b")]).run(120), Node([stream("dead"), stream("gone")], "node1").run(60)
    rows = [*alive, *dead]
    lake.append("telemetry/batches", [batch_row(row) for row in rows])
    spec = fleet_spec("a", "b", "dead")
    counts = fleet_counts(spec, ControlTables(lake), None, START + at(120))
    assert counts is not None
    load = slots(counts, "dead")
    assert load[2:6] == pytest.approx([usual(200, 5)] * 4, rel=0.2)
    assert load[7:] == [None] * (counts.periods - 7)
    assert slots(counts, "gone")[7:] == [0.0] * (counts.periods - 7), "it exists no more"
    assert None not in slots(counts, "a")


def test_without_any_cost_loads_with_rows_are_unknown_and_others_the_least(lake: Lake) -> None:
    """After 30 minutes without a batch, new streams are still admitted."""
    rows = [replace(row, durations_ms={}, rows_in=0) for row in Node([stream("a"), stream("idle")]).run(60)]
    rows = [replace(row, source_end=0, backlog_rows=0) if row.query == "idle" else row for row in rows]
    counts = told(lake, rows, "new", until_s=60)
    assert (counts.unit, counts.slots, waits(counts)) == (LoadUnit.SLOTS, 2, {})
    assert slots(counts, "a")[-1] is None
    assert slots(counts, "idle")[-1] == slots(counts, "new")[-1] == 1 / 1000 / PERIOD_S
    in_rows = fleet_counts(fleet_spec("a", capacity=100), ControlTables(lake), None, START + at(60))
    assert in_rows is not None and (in_rows.unit, in_rows.slot_ms, in_rows.slots) == (LoadUnit.ROWS, (), 0)


def test_while_the_first_batch_of_all_runs_there_is_nothing_to_plan(lake: Lake) -> None:
    first = Node([stream()]).run(20)[0]
    marks = [
        replace(first, time=START + at(n), batch_id=-1, rows_in=0, durations_ms={RUNNING: 1000 * n})
        for n in range(10, 180, 5)
    ]
    lake.append("telemetry/batches", [batch_row(mark) for mark in marks])
    tables, spec = ControlTables(lake), fleet_spec("a")
    assert fleet_counts(spec, tables, None, START + at(180)) is None
    heartbeats = [replace(first, query=HEARTBEAT, time=START + at(n), durations_ms={}) for n in range(180, 240, 10)]
    lake.append("telemetry/batches", [batch_row(beat) for beat in heartbeats])
    assert fleet_counts(spec, tables, None, START + at(240)) is not None, "its node has died"


def test_later_evaluations_count_only_what_is_new(lake: Lake) -> None:
    rows = Node([stream("a", 200), stream("b", 1000)]).run(1500)
    whole = told(lake, rows, until_s=1500, periods=200)
    MemoryStore(lake).record("ingest", "drfm", "decision", START, {"until": (START + at(1400)).isoformat()})
    newer = fleet_counts(fleet_spec("a", "b", periods=200), ControlTables(lake), None, START + at(1500))
    assert newer is not None and (newer.since, newer.until) == (START + at(1400), whole.until)
    assert slots(newer, "b") == pytest.approx(slots(whole, "b")[-newer.periods :])


def waits(counts: StreamCounts) -> Mapping[str, int]:
    assert counts.waiting is not None
    return counts.waiting


def test_streams_in_time_wait_for_nothing(lake: Lake) -> None:
    streams = [stream("a"), stream("b", 1000), stream("back", trigger_s=0), stream("long", trigger_s=60)]
    rows = Node(streams, slots=4).run(240)
    assert all(row.backlog_rows for row in rows if row.query == "b"), "rows that came during a batch wait at its end"
    assert waits(told(lake, rows, until_s=240)) == {}


def test_streams_of_an_overloaded_node_are_behind(lake: Lake) -> None:
    """Each is 15 s late in the end, and its load in 15 s waits."""
    busy, idle = Node([stream(f"s{i:02}", 200) for i in range(60)]), Node([stream("free", 200)], "node1")
    rows = [*busy.run(200), *idle.run(200)]
    late_s = max(row.duration_s for row in rows) - 5
    found = waits(told(lake, rows, until_s=200))
    assert len(found) == 60 and "free" not in found
    slot_s = sum(found.values()) / 1000
    assert 0.3 * late_s < slot_s / (60 * usual(200, 5)) < 1.1 * late_s


def test_waiting_rows_count_as_rows_if_loads_do(lake: Lake) -> None:
    rows = Node([stream()]).run(200)
    slow = [replace(row, backlog_rows=5000) for row in rows]
    found = waits(told(lake, slow, until_s=200, capacity=100.0))
    assert found == {"a": pytest.approx(5000 - 200 * 5, rel=0.02)}


def test_backlog_that_is_worked_off_within_a_period_shows_no_overload(lake: Lake) -> None:
    rows = Node([stream()]).run(200)
    waves = [replace(row, backlog_rows=5000 if n % 2 else 0) for n, row in enumerate(rows)]
    assert waits(told(lake, waves, until_s=200)) == {}


def test_old_backlog_fades_by_half_in_each_period(lake: Lake) -> None:
    rows = Node([stream()]).run(200)

    def waiting_until(when_s: float) -> int:
        slow = [replace(row, backlog_rows=9000 if row.time < START + at(when_s) else 0, query="a") for row in rows]
        return waits(told(Lake(lake.location / str(when_s)), slow, until_s=200, capacity=100.0)).get("a", 0)

    now = waiting_until(190)  # the newest period that is over ends there
    assert waiting_until(180) == pytest.approx(now / 2, rel=0.05)
    assert waiting_until(170) == pytest.approx(now / 4, rel=0.05)


def test_marker_of_a_running_batch_shows_what_waits_and_an_idle_one_that_nothing_does(lake: Lake) -> None:
    rows = Node([stream()]).run(100)
    last = rows[-1]
    marks = [
        replace(last, time=START + at(100 + n), rows_in=0, durations_ms={RUNNING: 1000 * n}, backlog_rows=8000)
        for n in range(1, 80)
    ]
    assert waits(told(lake, [*rows, *marks], until_s=180, capacity=100.0))["a"] > 3000
    idle = [replace(mark, durations_ms={}, query="idle", trigger_s=3600) for mark in marks]
    assert "idle" not in waits(told(lake, idle, until_s=180, capacity=100.0)), "its rows wait for the trigger"


def test_source_that_does_not_say_what_waits_is_behind_if_its_batches_are_late(lake: Lake) -> None:
    fast, slow = (replace(stream(name), counts=False) for name in ("fast", "slow"))
    rows = [*Node([fast]).run(200), *Node([replace(slow, batch_s=12.0)], "node1").run(200)]
    counts = told(lake, rows, until_s=200)
    found = waits(counts)
    assert set(found) == {"slow"} and found["slow"] / 1000 == pytest.approx(7 * (12 / 5 + 200 * ROW_S), rel=0.7)
    assert settled(counts, "fast")[1:] == pytest.approx([usual(200, 5)] * (counts.periods - 3), rel=0.15)

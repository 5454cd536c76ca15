"""Two queries that share an app's slots: sized for both, whichever is busier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from millrace.control.app_queries import running_queries
from millrace.control.collect import collect
from millrace.control.new_observations import new_observations
from millrace.lake.control_tables import ControlTables
from millrace.model.protocols import Cursor
from millrace.model.signals import AppSignals, Signals
from millrace.model.telemetry import BatchMetrics, OperatorBatch
from millrace.optimizers.registry import all_of
from tests.include.control.synthetic import START, add, lake_of, spec

SLOTS = 4
TICK_S = 0.02
Rate = Callable[[float], float]


@dataclass
class Query:
    """A query whose batches cost fixed_s, and slot_s_per_row of a slot per row, while others use the slots too."""

    name: str
    fixed_s: float
    slot_s_per_row: float
    rate: Rate
    arrived: float = 0.0
    read: int = 0
    began_s: float = 0.0
    rows: int = 0
    fixed_left_s: float = 0.0
    work_left: float = 0.0
    batch_id: int = -1
    done: list[BatchMetrics] = field(default_factory=list)

    def begin(self, now_s: float) -> None:
        self.batch_id, self.began_s = self.batch_id + 1, now_s
        self.rows = int(self.arrived) - self.read
        self.fixed_left_s, self.work_left = self.fixed_s, self.rows * self.slot_s_per_row

    def end(self, now_s: float, slots: int) -> None:
        self.read += self.rows
        useful_s = self.rows * self.slot_s_per_row
        operator = OperatorBatch("0.MapInPandas", "MapInPandas", slots, slots, self.rows, self.rows, useful_s)
        row = BatchMetrics(
            "delays", "delays", self.name, START + timedelta(seconds=now_s), 1, 0, self.batch_id, slots, self.rows,
            durations_ms={"triggerExecution": round(1000 * (now_s - self.began_s))},
            backlog_rows=int(self.arrived) - self.read, source_end=int(self.arrived), operators=(operator,),
        )  # fmt: skip
        self.done.append(row)


def shared(queries: Sequence[Query], seconds: float, slots: int = SLOTS) -> list[BatchMetrics]:
    """Return the batches of queries that run back to back and share the slots evenly while they have tasks."""
    for query in queries:
        query.begin(0.0)
    for step in range(1, round(seconds / TICK_S) + 1):
        now_s = step * TICK_S
        working = [q for q in queries if q.fixed_left_s <= 0 and q.work_left > 0]
        for query in queries:
            query.arrived += query.rate(now_s) * TICK_S
            if query in working:
                query.work_left -= TICK_S * slots / len(working)
            elif query.fixed_left_s > 0:
                query.fixed_left_s -= TICK_S
            if query.fixed_left_s <= 0 and query.work_left <= 0:
                query.end(now_s, slots)
                query.begin(now_s)
    return sorted((row for query in queries for row in query.done), key=lambda row: row.time)


def evaluated(folder: Path, rows: Sequence[BatchMetrics], times: Sequence[float]) -> list[Signals]:
    """Return what evaluations at some times saw, and record their observations."""
    lake, seen, cursor = lake_of(folder, []), [], Cursor()
    tables, begin = ControlTables(lake), START
    for number, at in enumerate(times):
        now = START + timedelta(seconds=at)
        add(lake, [row for row in rows if begin < row.time <= now])
        begin = now
        signals = collect(spec(), tables, cursor, now)
        cursor = Cursor(signals.telemetry_version, signals.until)
        tables.observations.add("delays", new_observations(signals), "evaluations", number)
        seen.append(signals)
    return seen


def utilisation(app: AppSignals) -> float:
    assert app.arrival_rows_per_s is not None and app.capacity is not None
    return app.arrival_rows_per_s / app.capacity.rows_per_s


def orders(rate: Rate) -> Query:
    return Query("orders", 1.0, 0.004, rate)


def clicks(rate: Rate) -> Query:
    return Query("clicks", 0.4, 0.0005, rate)


def test_load_of_an_app_is_the_sum_over_its_queries(tmp_path: Path) -> None:
    rows = shared([orders(lambda t: 300), clicks(lambda t: 1600)], 240)
    (signals,) = evaluated(tmp_path, rows, [240])
    (app,) = signals.apps
    assert utilisation(app) == pytest.approx((300 * 0.004 + 1600 * 0.0005) / SLOTS, rel=0.1)
    assert app.slot_busy_ratio == pytest.approx(0.5, abs=0.06)
    assert app.arrival_rows_per_s == pytest.approx(1900, rel=0.05)
    assert app.capacity is not None and app.capacity.fixed_s == pytest.approx(1.0, rel=0.25)
    of = {query.query: query for query in app.queries}
    assert of["orders"].slots_busy == pytest.approx(300 * 0.004, rel=0.15)
    for query in (orders(lambda t: 0), clicks(lambda t: 0)):
        capacity = of[query.name].capacity
        assert capacity is not None and capacity.rows_per_s == pytest.approx(SLOTS / query.slot_s_per_row, rel=0.1)
    assert {o.operator for o in new_observations(signals)} == {"delays/orders", "delays/clicks"}


def test_load_of_queries_with_alternating_peaks_is_steady_and_causes_no_step(tmp_path: Path) -> None:
    def first(t: float) -> float:
        return 1.0 if int(t / 60) % 2 == 0 else 0.2

    rows = shared([orders(lambda t: 550 * first(t)), clicks(lambda t: 4400 * (1.2 - first(t)))], 600)
    asked = spec(slots={"min": 1, "max": 8, "start": SLOTS})
    current, memory = asked.first_deployment(), {}
    tuner, settled = all_of(asked)[asked.tuner.name], []
    for signals in evaluated(tmp_path, rows, range(120, 601, 20)):
        (app,) = signals.apps
        settled.append(utilisation(app))
        proposal, memory = tuner.propose(signals, current, memory)
        assert proposal.changes == (), proposal.sentence
    least, most = min(settled), max(settled)
    assert most - least < 0.12, settled
    assert (least + most) / 2 == pytest.approx(1.2 * 550 * 0.004 / SLOTS, abs=0.05)


def test_ten_queries_with_peaks_in_turn_cause_no_step_and_each_keeps_its_lag(tmp_path: Path) -> None:
    def peak(number: int) -> Rate:
        return lambda t: 500.0 if int(t / 60) % 10 == number else 50.0

    queries = [Query(f"query{n}", 0.2 + 0.05 * n, 0.0027, peak(n)) for n in range(10)]
    rows = shared(queries, 420)
    asked = spec(slots={"min": 1, "max": 8, "start": SLOTS})
    current, memory = asked.first_deployment(), {}
    tuner = all_of(asked)[asked.tuner.name]
    for signals in evaluated(tmp_path, rows, range(120, 421, 20)):
        proposal, memory = tuner.propose(signals, current, memory)
        assert proposal.changes == (), proposal.sentence
        assert len(signals.apps[0].queries) == len(queries)
    for query in queries:  # a row waits for the batch that runs when it arrives, and for its own
        ends = [(row.time - START).total_seconds() for row in query.done]
        longest = max((end - begin for begin, end in zip(ends, ends[2:], strict=False)), default=0.0)
        assert longest <= asked.objective.max_lag_s, query.name


def test_observations_of_queries_are_combined_in_the_present_mix(tmp_path: Path) -> None:
    rows = shared([orders(lambda t: 300), clicks(lambda t: 1600)], 200)
    first, second = evaluated(tmp_path, rows, [150, 200])
    mixed = [o for o in second.observations if o.operator == "delays"]
    capacity = second.apps[0].capacity
    assert capacity is not None and mixed
    assert mixed[-1].throughput == pytest.approx(capacity.rows_per_s, rel=0.1)
    assert not any(o.operator == "delays" for o in first.observations)


def test_ended_query_no_longer_counts_and_a_slow_trigger_still_does() -> None:
    ended = shared([orders(lambda t: 100)], 30)
    running = shared([clicks(lambda t: 100)], 300)
    newest, period = running[-1].time, timedelta(seconds=20)
    assert running_queries([*ended, *running], newest, period) == ["clicks"]
    slow = [row for row in shared([orders(lambda t: 100)], 240) if row.batch_id % 60 == 0]
    assert running_queries([*slow, *running], newest, period) == ["clicks", "orders"]


def test_app_of_one_query_is_observed_under_its_own_name(tmp_path: Path) -> None:
    (signals,) = evaluated(tmp_path, shared([orders(lambda t: 300)], 120), [120])
    assert signals.apps[0].queries == ()
    assert {o.operator for o in new_observations(signals)} == {"delays"}

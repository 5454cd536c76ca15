from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from millrace.control.collect import collect
from millrace.control.new_observations import new_observations
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.observations import ObservationStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.row_codec import executor_row
from millrace.lake.store import Lake
from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.deployment import ExecutorSize
from millrace.model.errors import NotReady
from millrace.model.protocols import Cursor
from millrace.model.signals import AppSignals, Capacity, Signals
from millrace.model.telemetry import BatchMetrics, ExecutorRun
from tests.include.control.synthetic import START, App, add, lake_of, spec

NOWHERE = Cursor()


def collect_from(lake: Lake, cursor: Cursor = NOWHERE, now: datetime | None = None) -> Signals:
    return collect(spec(), ControlTables(lake), cursor, now or START + timedelta(minutes=10))


def of(signals: Signals) -> AppSignals:
    assert len(signals.apps) == 1
    return signals.apps[0]


def reconfiguration(started: datetime, ended: datetime | None, generation: int, version: int) -> Reconfiguration:
    outcome = Outcome.READY if ended else Outcome.OPEN
    return Reconfiguration("delays", "delays", "d1", "T2", version - 1, version, generation, started, ended, 6, outcome)


def test_collect_when_steady_then_every_figure_is_right(tmp_path: Path) -> None:
    app = App(noise=0.02)
    rows = app.run(200, lambda t: 900 + 5 * t if t < 100 else 1000)
    signals = collect_from(lake_of(tmp_path, rows))
    seen = of(signals)
    assert signals.until == rows[-1].time
    assert signals.since == rows[-1].time - timedelta(seconds=20)
    assert (signals.telemetry_version, signals.deployment_version) == (1, 1)
    assert (seen.app, seen.slots, seen.parallelism, seen.source_splits) == ("delays", 4, 4, False)
    assert seen.arrival_rows_per_s == pytest.approx(1000, rel=0.02)
    assert seen.processed_rows_per_s == pytest.approx(1000, rel=0.15)
    assert seen.backlog_rows == rows[-1].backlog_rows
    assert abs(seen.backlog_growth_rows_per_s or 0) < 100
    assert seen.busy_ratio == pytest.approx(1.0, abs=0.01)
    assert seen.backpressured_ratio == 0.0
    assert seen.slot_busy_ratio == pytest.approx(0.5, abs=0.07)
    assert seen.capacity is not None
    assert seen.capacity.rows_per_s == pytest.approx(2000, rel=0.05)
    assert seen.capacity.fixed_s == pytest.approx(1.0, rel=0.1)
    assert seen.restart_lag_rows == 0
    (operator,) = seen.operators
    assert operator.operator == "delays/0.MapInPandas"
    assert operator.parallelism == 4
    assert operator.throughput == pytest.approx(2000, rel=0.03)
    assert operator.rows_in_per_s == pytest.approx(1000, rel=0.15)
    assert operator.useful_s_per_row == pytest.approx(4 / 2000, rel=0.03)
    assert not signals.settling


@pytest.mark.parametrize(("master", "restarts"), [("local", True), ("embedded", False)])
def test_collect_says_if_a_change_of_slots_is_a_restart(tmp_path: Path, master: str, restarts: bool) -> None:
    lake = lake_of(tmp_path, App().run(60, 500))
    seen = collect(spec(submit={"master": master}), ControlTables(lake), NOWHERE, START + timedelta(minutes=10))
    assert of(seen).restarts is restarts


def test_collect_reports_the_newest_rate_too(tmp_path: Path) -> None:
    rows = App(fixed_s=0.4).run(120, lambda t: 300 if t < 110 else 1200)
    seen = of(collect_from(lake_of(tmp_path, rows)))
    assert seen.arrival_recent_rows_per_s == pytest.approx(1200, rel=0.03)
    assert seen.arrival_rows_per_s is not None and 500 < seen.arrival_rows_per_s < 1000


def test_collect_counts_batches_with_almost_no_rows(tmp_path: Path) -> None:
    app = App()
    quiet = of(collect_from(lake_of(tmp_path / "quiet", app.run(60, 2))))
    assert quiet.empty_batches == quiet.healthy_batches >= 10 and quiet.capacity is None
    busy = of(collect_from(lake_of(tmp_path / "busy", App().run(60, 1000))))
    assert busy.empty_batches == 0 < busy.healthy_batches


def test_collect_includes_profiled_streams(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, App().run(60, 300.0))
    counted = [
        {"pipeline": "delays", "app": "delays", "time": START - timedelta(hours=n), "stream": "JFK/B6", "rows": 7}
        for n in (1, 2)
    ]
    lake.append("telemetry/streams", counted)
    wanted = {"source": "x", "time_column": "t", "period_s": 3600, "stream": ["origin", "carrier"]}
    asked = spec(profile=wanted, admission={"capacity": 1.0})
    now = START + timedelta(minutes=10)
    found = collect(asked, ControlTables(lake), NOWHERE, now).streams
    assert found is not None and (found.stream, found.rows) == (("JFK/B6",), (7,))
    assert collect(spec(profile=wanted), ControlTables(lake), NOWHERE, now).streams is None


def test_collect_when_saturated_then_reports_the_true_arrival_rate(tmp_path: Path) -> None:
    app = App(cap=4000)
    seen = of(collect_from(lake_of(tmp_path, app.run(120, 3000))))
    assert seen.arrival_rows_per_s == pytest.approx(3000, rel=0.01)
    assert seen.processed_rows_per_s == pytest.approx(4000 / 3, rel=0.01)
    assert seen.backlog_growth_rows_per_s == pytest.approx(3000 - 4000 / 3, rel=0.02)
    assert seen.backlog_rows is not None and seen.backlog_rows > 100_000
    assert seen.backpressured_ratio == 1.0


def test_collect_when_saturated_then_growing_batches_show_it(tmp_path: Path) -> None:
    app = App()
    seen = of(collect_from(lake_of(tmp_path, [*app.run(30, 1000), *app.run(90, 2500)])))
    assert seen.backpressured_ratio is not None and seen.backpressured_ratio > 0.9
    assert seen.arrival_rows_per_s == pytest.approx(2500, rel=0.01)


def test_collect_rates_span_a_restart(tmp_path: Path) -> None:
    app = App(slots=2, rows_per_s=1200, cap=1500)
    before = app.run(100, 600)
    app.restart(8, 600, slots=4, rows_per_s=2200)
    after = app.run(4, 600)
    lake = lake_of(tmp_path, [*before, *after])
    store = ReconfigurationStore(lake)
    DeploymentStore(lake).commit(spec().first_deployment(), 1)
    store.record(reconfiguration(before[-1].time - timedelta(seconds=4), after[0].time, 2, 2))
    signals = collect_from(lake)
    seen = of(signals)
    assert seen.arrival_rows_per_s == pytest.approx(600, rel=0.02)
    assert (seen.slots, seen.parallelism, signals.deployment_version) == (4, 4, 2)
    assert seen.restart_lag_rows == pytest.approx(8 * 600, rel=0.5)
    assert seen.restart_lag_rows <= (seen.backlog_rows or 0)
    assert signals.settling
    assert new_observations(signals) == ()

    add(lake, app.run(40, 600))
    drained = collect_from(lake, Cursor(signals.telemetry_version, signals.until))
    assert not drained.settling
    assert of(drained).restart_lag_rows == pytest.approx(0, abs=300)
    capacity = of(drained).capacity
    assert capacity is not None
    assert capacity.rows_per_s == pytest.approx(2200, rel=0.1)


@pytest.mark.parametrize(("fixed_s", "settling"), [(8.0, True), (24.0, False)])
def test_one_healthy_batch_settles_a_change_if_it_fills_a_period(
    tmp_path: Path, fixed_s: float, settling: bool
) -> None:
    app = App(fixed_s=fixed_s)
    before = app.run(100, 600)
    app.slots = 8
    cold, healthy = app.batch(600), app.batch(600)
    store = ReconfigurationStore(lake_of(tmp_path, [*before, cold, healthy]))
    store.record(reconfiguration(before[-1].time - timedelta(seconds=4), before[-1].time, 1, 2))
    assert collect_from(store.lake).settling is settling


def test_finished_script_leaves_its_measurements_settled(tmp_path: Path) -> None:
    rows = App().run(300, 900)
    store, end = ReconfigurationStore(lake_of(tmp_path, rows)), rows[-1].time + timedelta(seconds=20)
    store.record(reconfiguration(rows[0].time, rows[1].time, 1, 1))
    store.record(replace(reconfiguration(end, end, 1, 1), generation=None, to_version=None, outcome=Outcome.FINISHED))
    assert not collect_from(store.lake).settling


def test_tasks_are_known_if_they_do_not_follow_the_slots(tmp_path: Path) -> None:
    def told(name: str, *apps: App) -> int | None:
        rows = [row for app in apps for row in app.run(60, 600)]
        return of(collect_from(lake_of(tmp_path / name, rows))).tasks

    assert told("more", App(slots=4, tasks=8)) == 8
    assert told("as many", App(slots=4, tasks=4)) is None  # may differ at other slots
    app = App(slots=4, tasks=4)
    before = app.run(60, 600)
    app.slots = 2
    assert of(collect_from(lake_of(tmp_path / "fixed", [*before, *app.run(60, 600)]))).tasks == 4
    app.tasks = 7
    assert of(collect_from(lake_of(tmp_path / "other", [*before, *app.run(60, 600)]))).tasks is None


@pytest.mark.parametrize(("before", "now"), [(2, 8), (8, 2)])
def test_number_of_tasks_that_follows_the_slots_is_unknown(tmp_path: Path, before: int, now: int) -> None:
    app = App(slots=before)
    rows = app.run(5, 600)
    app.slots = now
    assert of(collect_from(lake_of(tmp_path, [*rows, *app.run(120, 600)]))).tasks is None


def test_collect_does_not_blame_a_restart_for_later_backlog(tmp_path: Path) -> None:
    app = App(slots=2, rows_per_s=1200)
    rows = app.run(60, 300)
    app.restart(8, 300, slots=2, rows_per_s=1200)
    rows += app.run(60, 300)
    rows += app.run(40, 5000)
    lake = lake_of(tmp_path, rows)
    ReconfigurationStore(lake).record(reconfiguration(START, START + timedelta(seconds=70), 2, 1))
    seen = of(collect_from(lake))
    assert (seen.backlog_rows or 0) > 10_000
    assert seen.restart_lag_rows == pytest.approx(0, abs=300)


def test_collect_is_settling_while_a_reconfiguration_is_open(tmp_path: Path) -> None:
    rows = App().run(300, 900)
    lake = lake_of(tmp_path, rows)
    opened = rows[-1].time - timedelta(seconds=100)
    ReconfigurationStore(lake).record(reconfiguration(opened, None, 2, 2))
    assert collect_from(lake, now=rows[-1].time).settling
    late = collect_from(lake, now=rows[-1].time + timedelta(seconds=200))
    assert late.deployment_version == 1


def test_collect_counts_a_doubled_batch_once(tmp_path: Path) -> None:
    rows = App().run(120, 900)
    twice = [replace(b, generation=2, time=b.time + timedelta(milliseconds=300)) for b in rows[-5:]]
    plain, doubled = collect_from(lake_of(tmp_path / "a", rows)), collect_from(lake_of(tmp_path / "b", [*rows, *twice]))
    assert of(doubled).batches == of(plain).batches
    assert of(doubled).arrival_rows_per_s == pytest.approx(900, rel=0.05)


def test_collect_when_idle_markers_arrive_then_arrival_is_zero(tmp_path: Path) -> None:
    app = App(slots=4)
    rows = app.run(100, lambda t: 500 + 10 * t)
    app.arrive(2, 0)
    rows += [app.batch(0), app.batch(0)]
    signals = collect_from(lake_of(tmp_path, [*rows, *app.idle(100)]))
    seen = of(signals)
    assert seen.arrival_rows_per_s == 0.0
    assert (seen.backlog_rows, seen.backlog_growth_rows_per_s, seen.batches) == (0, 0.0, 0)
    assert (seen.busy_ratio, seen.slot_busy_ratio, seen.backpressured_ratio) == (0.0, 0.0, 0.0)
    assert seen.parallelism == 4
    assert seen.capacity is not None, "what the app can do is still known from the evening"
    assert new_observations(signals) == ()


def test_collect_without_markers_claims_nothing_new(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, App().run(60, 900))
    first = collect_from(lake)
    with pytest.raises(NotReady):
        collect_from(lake, Cursor(first.telemetry_version, first.until))


def test_collect_ignores_commits_of_another_pipeline(tmp_path: Path) -> None:
    rows = App().run(60, 900)
    lake = lake_of(tmp_path, rows)
    first = collect_from(lake)
    add(lake, [replace(rows[-1], pipeline="orders", app="orders", time=rows[-1].time + timedelta(seconds=30))])
    with pytest.raises(NotReady):
        collect_from(lake, Cursor(first.telemetry_version, first.until))


@pytest.mark.parametrize("launched", [True, False])
def test_collect_without_telemetry_or_launch_is_not_ready(tmp_path: Path, launched: bool) -> None:
    rows = [] if launched else App().run(30, 900)
    with pytest.raises(NotReady):
        collect_from(lake_of(tmp_path, rows, launched))


def test_collect_when_a_batch_has_one_file_then_reports_source_splits(tmp_path: Path) -> None:
    seen = of(collect_from(lake_of(tmp_path, App(slots=4, tasks=1).run(120, lambda t: 300 + 5 * t))))
    assert (seen.slots, seen.parallelism, seen.source_splits) == (4, 1, True)
    assert seen.capacity is not None and seen.capacity.parallelism == 1


def test_collect_rates_stay_right_if_the_clock_is_set_back(tmp_path: Path) -> None:
    app = App()
    early = app.run(60, 900)
    lake = lake_of(tmp_path, early)
    first = collect_from(lake)
    app.clock -= timedelta(seconds=45)
    add(lake, app.run(30, 900))
    second = collect_from(lake, Cursor(first.telemetry_version, first.until))
    assert second.until < first.until
    assert of(second).arrival_rows_per_s == pytest.approx(900, rel=0.1)
    assert (of(second).busy_ratio or 0) <= 1.0


def test_collect_rates_stay_right_until_a_clock_set_back_has_caught_up(tmp_path: Path) -> None:
    app = App()
    lake = lake_of(tmp_path, app.run(60, 900))
    app.clock -= timedelta(seconds=30)
    for _ in range(12):
        add(lake, app.run(5, 900))
        assert of(collect_from(lake, now=app.clock)).arrival_rows_per_s == pytest.approx(900, rel=0.1)


def test_collect_continues_at_once_if_the_clock_was_set_back_by_an_hour(tmp_path: Path) -> None:
    app = App()
    lake = lake_of(tmp_path, app.run(4200, 900))
    first = collect_from(lake, now=app.clock)
    changed = app.clock - timedelta(seconds=20)
    ReconfigurationStore(lake).record(reconfiguration(changed, changed + timedelta(seconds=10), 1, 2))
    app.clock -= timedelta(hours=1)
    after = app.run(40, 900)
    add(lake, after)
    second = collect_from(lake, Cursor(first.telemetry_version, first.until), app.clock)
    assert (second.settling, second.deployment_version, second.until) == (False, 2, app.clock)
    assert of(second).arrival_rows_per_s == pytest.approx(900, rel=0.1)
    assert of(second).batches == sum(row.time > second.since for row in after)  # none from an hour ago


def test_collect_treats_a_change_after_the_clock_was_set_back_as_the_last(tmp_path: Path) -> None:
    app = App()
    lake = lake_of(tmp_path, app.run(60, 900))
    store = ReconfigurationStore(lake)
    store.record(reconfiguration(app.clock + timedelta(hours=1), app.clock + timedelta(hours=1, seconds=9), 1, 2))
    store.record(reconfiguration(app.clock - timedelta(seconds=5), app.clock - timedelta(seconds=1), 1, 3))
    assert [change.to_version for change in store.recent("delays")] == [3, 2]
    signals = collect_from(lake, now=app.clock)
    assert (signals.settling, signals.deployment_version) == (True, 3)


def test_collect_counts_executors_that_died_since_the_last_change(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, App().run(60, 900))
    ReconfigurationStore(lake).record(reconfiguration(START, START + timedelta(seconds=20), 1, 2))
    reasons = (
        "Command exited with code 1",
        "worker lost: gone",
        "Executor decommission: no longer needed",
        "Command exited with code 137",
        "The executor with id 4 was deleted by a user or the framework.",
        "killed",
        None,
    )
    for number, reason in enumerate(reasons):
        ended = None if reason is None else START + timedelta(seconds=30)
        run = ExecutorRun("delays", "delays", 1, str(number), "h", 1, 1024, START, ended, reason)
        lake.append("telemetry/executors", [executor_row(run)])
    early = ExecutorRun("delays", "delays", 1, "9", "h", 1, 1024, START, START + timedelta(seconds=10), "killed")
    lake.append("telemetry/executors", [executor_row(early)])
    app = of(collect_from(lake))
    assert (app.executor_deaths, app.memory_deaths) == (2, 1)


def test_collect_reports_the_share_of_garbage_collection_in_the_tasks_time(tmp_path: Path) -> None:
    rows = [replace(b, gc_s=0.2 * sum(o.useful_s or 0.0 for o in b.operators)) for b in App().run(60, 900)]
    assert of(collect_from(lake_of(tmp_path / "known", rows))).gc_ratio == pytest.approx(0.2)
    assert of(collect_from(lake_of(tmp_path / "unknown", App().run(60, 900)))).gc_ratio is None
    idle = [replace(b, gc_s=0.7 * sum(o.useful_s or 0.0 for o in b.operators)) for b in App().run(60, 10)]
    assert of(collect_from(lake_of(tmp_path / "idle", idle))).gc_ratio is None, "one collection is most of so little"


def test_collect_when_columns_are_null_then_figures_are_missing_not_zero(tmp_path: Path) -> None:
    nothing = {"backlog_rows": None, "source_end": None, "operators": (), "host_cpu_other": None}
    rows = [replace(b, **nothing) for b in App().run(60, 900)]  # type: ignore[arg-type]
    seen = of(collect_from(lake_of(tmp_path, rows)))
    assert (seen.arrival_rows_per_s, seen.backlog_rows, seen.backlog_growth_rows_per_s) == (None, None, None)
    assert (seen.parallelism, seen.slot_busy_ratio, seen.backpressured_ratio, seen.capacity) == (None,) * 4
    assert seen.operators == ()
    assert seen.processed_rows_per_s == pytest.approx(900, rel=0.15)


def test_collect_recognises_a_full_batch_if_batches_are_limited(tmp_path: Path) -> None:
    limited = App(cap=700).run(120, 900)
    assert of(collect_from(lake_of(tmp_path / "limited", limited))).batch_rows_limit == 700
    free = App(rows_per_s=1000).run(120, 1200)  # cannot keep up either, but always takes all waiting rows
    assert of(collect_from(lake_of(tmp_path / "free", free))).batch_rows_limit is None


def test_collect_leaves_out_rows_that_lack_required_values(tmp_path: Path) -> None:
    rows = App().run(60, 900)
    lake = lake_of(tmp_path, rows)
    clean = of(collect_from(lake, now=rows[-1].time))
    bad = replace(rows[-2], batch_id=999, rows_in=None)  # type: ignore[arg-type]
    add(lake, [bad, replace(rows[-2], batch_id=998, slots=None)])  # type: ignore[arg-type]
    assert of(collect_from(lake, now=rows[-1].time)) == clean


def test_collect_ignores_a_row_from_the_future(tmp_path: Path) -> None:
    rows = App().run(60, 900)
    lake = lake_of(tmp_path, rows)
    clean = collect_from(lake, now=rows[-1].time)
    add(lake, [replace(rows[-1], batch_id=999, time=rows[-1].time + timedelta(hours=1))])
    assert collect_from(lake, now=rows[-1].time).until == clean.until


def test_collect_after_a_pause_of_the_loop_uses_a_bounded_period(tmp_path: Path) -> None:
    rows = App().run(600, lambda t: 200 if t < 500 else 1500)
    signals = collect_from(lake_of(tmp_path, rows), Cursor(0, START), now=rows[-1].time)
    assert (signals.until - signals.since).total_seconds() == 60
    assert of(signals).arrival_rows_per_s == pytest.approx(1500, rel=0.01)


def test_collect_when_repeated_soon_then_uses_a_whole_period(tmp_path: Path) -> None:
    app = App()
    lake = lake_of(tmp_path, app.run(100, 900))
    first = collect_from(lake)
    add(lake, [app.batch(900)])
    second = collect_from(lake, Cursor(first.telemetry_version, first.until))
    assert (second.until - second.since).total_seconds() == 20


def test_collect_when_two_queries_run_then_counts_rows_of_both(tmp_path: Path) -> None:
    heavy, light = App().run(100, 900), App(fixed_s=0.1, rows_per_s=50_000).run(100, 100)
    for b in light:
        heavy.append(replace(b, query="side"))
    seen = of(collect_from(lake_of(tmp_path, heavy)))
    assert seen.arrival_rows_per_s == pytest.approx(1000, rel=0.02)
    assert [query.query for query in seen.queries] == ["delays", "side"]


def test_new_observations_when_measured_then_one_point_at_the_running_p(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, App(slots=8, tasks=2).run(150, lambda t: 300 + 4 * t))
    signals = collect_from(lake)
    (point,) = new_observations(signals)
    capacity = of(signals).capacity
    assert capacity is not None
    assert (point.operator, point.parallelism, point.time) == ("delays", 2, signals.until)
    assert (point.throughput, point.noise) == (capacity.rows_per_s, capacity.rows_per_s_error)
    store = ObservationStore(lake)
    store.add("delays", [point], "look", signals.telemetry_version)
    store.add("delays", [point], "look", signals.telemetry_version)
    assert collect_from(lake).observations == (point,)


def test_collect_when_history_is_old_then_reads_only_the_last_half_hour(tmp_path: Path) -> None:
    app = App(rows_per_s=500)
    old: list[BatchMetrics] = app.run(60, 200)
    app.clock += timedelta(hours=2)
    app.rows_per_s = 2000
    new = app.run(100, lambda t: 300 + (t - 7200) * 5)
    capacity = of(collect_from(lake_of(tmp_path, [*old, *new]), now=new[-1].time)).capacity
    assert capacity is not None
    assert capacity.rows_per_s == pytest.approx(2000, rel=0.05)
    assert capacity.batches < len(new)


def test_collect_does_not_take_one_full_batch_for_a_limit(tmp_path: Path) -> None:
    first, *others = App(rows_per_s=3000).run(60, 900)
    waited = replace(others[0], backlog_rows=10 * others[0].rows_in)
    assert of(collect_from(lake_of(tmp_path, [first, waited, *others[1:]]))).batch_rows_limit is None


def test_collect_includes_the_signals_of_a_join(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, App().run(60, 300.0))
    section = {
        "streams": {"a": {"source": "a", "time": "t", "columns": ["k"]}},
        "tasks": {"pairs": {"left": "a", "right": "a", "on": ["k"], "within_s": 60}},
        "results": "r", "checkpoint": "c", "capacity": 100,
    }  # fmt: skip
    row = {
        "pipeline": "delays", "app": "delays", "time": START + timedelta(seconds=30), "generation": 1, "batch_id": 1,
        "worker": 0, "window_tuples": 7, "capacity": 100, "offered": 9, "messages": 1, "bytes": 10, "shed": 2,
        "workers": 1, "block": 5, "shed_ratio": 0.5,
    }  # fmt: skip
    lake.append("telemetry/workers", [row])
    now = START + timedelta(minutes=10)
    seen = collect(spec(join=section), ControlTables(lake), NOWHERE, now)
    assert seen.join is not None and (seen.join.offered, seen.join.until) == (9, seen.until)
    assert seen.join.period_s == (seen.until - seen.since).total_seconds()
    assert collect(spec(), ControlTables(lake), NOWHERE, now).join is None


def test_collect_fits_only_batches_since_partitions_moved(tmp_path: Path) -> None:
    app = App(noise=0.02)
    before = app.run(200, lambda t: 900 + 5 * t if t < 100 else 1000)
    app.rows_per_s = 2600.0  # too small a difference to show by itself
    after = app.run(60, lambda t: 900 + 5 * t if t < 230 else 1000)
    lake = lake_of(tmp_path, [*before, *after])
    tables = ControlTables(lake)
    first = tables.deployments.latest("delays")
    assert first is not None
    slots = {"delays": replace(first.apps["delays"], executor=ExecutorSize(1, 512))}
    second = tables.deployments.commit(replace(first, apps=slots), 1)
    placed = {"delays": replace(second.apps["delays"], placement={"delays/0": (1, 0)})}
    tables.deployments.commit(replace(second, apps=placed), 2)
    moved = reconfiguration(before[-1].time, before[-1].time, 1, 3)

    tables.reconfigurations.record(replace(moved, tier="T1"))

    def capacity(**sections: object) -> Capacity:
        embedded = spec(submit={"master": "embedded"}, **sections)
        seen = of(collect(embedded, tables, NOWHERE, START + timedelta(minutes=10)))
        assert seen.capacity is not None
        return seen.capacity

    # durations are stored in whole milliseconds, so the first batch may seem to have started before
    assert capacity(placement={}).batches <= len(after) < capacity().batches
    assert capacity(placement={}).rows_per_s == pytest.approx(2600, rel=0.1)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.control.evaluation import GateResult
from millrace.control.quality import QualityGate
from millrace.control.quality.docs import EVERY_S, DataDocs
from millrace.lake.deployments import DeploymentStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.row_codec import batch_row
from millrace.model.decision import Action, Outcome, Reconfiguration
from millrace.model.protocols import Cursor
from tests.include.control.world import NAME, NOON, World, batch, good_rows, world, write, write_app

Rows = list[dict[str, Any]]


@pytest.fixture
def w(tmp_path: Path) -> World:
    made = world(tmp_path)
    made.run()
    return made


def gate(w: World, cursor: Cursor | None = None) -> GateResult:
    return w.loop.gate.check(cursor or Cursor(), w.clock())


def later(w: World, rows: Rows) -> GateResult:
    """Judge rows that follow a good evaluation."""
    read_to = gate(w).read_to
    w.clock.wait(20)
    write_app(w.lake, w.clock() - timedelta(seconds=1))
    write(w.lake, *rows)
    return gate(w, read_to)


def new_rows() -> Rows:
    return good_rows(31, 50, NOON + timedelta(seconds=20))


def test_gate_when_the_telemetry_is_sound_then_passes(w: World) -> None:
    assert gate(w) == GateResult(True, (), "the telemetry is sound", gate(w).read_to)
    assert later(w, new_rows()).passed


def changed(number: int, **values: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [row | values if row["batch_id"] == number else row for row in rows]


def twice(rows: Rows) -> Rows:
    return [*rows, rows[5]]


def gap(rows: Rows) -> Rows:
    moved = [row | {"time": row["time"] - timedelta(seconds=400)} for row in rows[:10]]
    return [*(row | {"backlog_rows": 50} for row in moved), *rows[10:]]


def unread(rows: Rows) -> Rows:
    return [row | {"rows_in": 0, "backlog_rows": 70} if row["batch_id"] in (40, 41) else row for row in rows]


IN_SET = "expect_column_values_to_be_in_set"
BETWEEN = "expect_column_values_to_be_between"
BAD = {
    "negative": (changed(40, rows_in=-5), BETWEEN, "rows_in", "40", "-5"),
    "no slots": (changed(40, slots=0), BETWEEN, "slots", "40", "0"),
    "negative backlog": (changed(40, backlog_rows=-1), BETWEEN, "backlog_rows", "40", "-1"),
    "negative duration": (changed(40, durations_ms={"triggerExecution": -9}), BETWEEN, "duration_s", "40", "-0.009"),
    "cpu above one": (changed(40, host_cpu_other=1.5), BETWEEN, "host_cpu_other", "40", "1.5"),
    "not a number": (changed(40, host_cpu_other=float("nan")), BETWEEN, "host_cpu_other", "40", "-inf"),
    "operator": (
        changed(40, operators=[{"id": "0", "name": "x", "tasks": 2, "p": 0, "rows_in": 1, "useful_s": 1.0}]),
        BETWEEN, "least_operator_p", "40", "0",
    ),
    "null": (changed(40, rows_in=None), "expect_column_values_to_not_be_null", "rows_in", "40", "null"),
    "null slots": (changed(40, slots=None), "expect_column_values_to_not_be_null", "slots", "40", "null"),
    "no duration": (changed(40, durations_ms={}), IN_SET, "missing_duration", "40", "True"),
    "duplicate": (twice, "expect_compound_columns_to_be_unique", "batch_id", "36", ""),
    "out of order": (lambda rows: shifted(40, 8)(rows), BETWEEN, "time_step_s", "40", "-7"),
    "future": (changed(50, time=NOON + timedelta(hours=1)), BETWEEN, "ahead_s", "50", "3580"),
    "source went back": (changed(40, source_end=10), BETWEEN, "source_step_rows", "40", "-3990"),
    "gap": (gap, BETWEEN, "silent_s", "41", "400.1"),
    "zero where traffic is known": (unread, BETWEEN, "unread_rows", "40", "30"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_gate_names_expectation_column_and_rows(w: World, case: str) -> None:
    spoil, expectation, column, number, value = BAD[case]
    result = later(w, spoil(new_rows()))
    assert not result.passed
    failure = next(f for f in result.failures if f.expectation == expectation and column in f.column)
    assert f"batch {number} of generation 1" in failure.rows[0].row
    assert failure.rows[0].value == value or not value
    assert f"batch {number} of generation 1" in failure.sentence
    assert len(failure.rows) <= 3 and "\n" not in result.sentence


@pytest.mark.parametrize("case", ["negative", "duplicate", "null", "future"])
def test_next_gate_after_a_reported_bad_row_continues_behind_it(w: World, case: str) -> None:
    refused = later(w, BAD[case][0](new_rows()))
    assert not refused.passed
    w.clock.wait(20)
    w.report(51, 70)
    result = gate(w, refused.read_to)
    assert result.passed, result.sentence


def test_gate_when_a_row_repeats_one_of_an_earlier_evaluation_then_refuses(w: World) -> None:
    again = good_rows(30, 30, NOON)
    result = later(w, [*again, *new_rows()])
    assert [f.expectation for f in result.failures] == ["expect_compound_columns_to_be_unique"]


def test_gate_when_a_batch_ran_again_under_a_new_generation_then_passes(w: World) -> None:
    rows = [row | {"generation": 2} for row in good_rows(30, 50, NOON + timedelta(seconds=20))]
    assert later(w, rows).passed


def test_gate_when_idle_markers_replace_batches_then_passes(w: World) -> None:
    marks = [
        batch_row(batch(30, NOON + timedelta(seconds=s), rows_in=0, durations_ms={}, source_end=3100, operators=()))
        for s in (5, 10, 15)
    ]
    assert later(w, marks).passed


def test_gate_when_tables_are_missing_then_names_them(tmp_path: Path) -> None:
    w = world(tmp_path)
    DeploymentStore(w.lake).commit(w.loop.spec.first_deployment(), None)
    result = gate(w)
    assert [r.row for r in result.failures[0].rows] == ["telemetry/batches", "telemetry/apps"]
    assert "telemetry/batches is missing" in result.sentence


def test_gate_when_the_app_has_just_started_then_waits_for_its_first_row(tmp_path: Path) -> None:
    w = world(tmp_path)
    DeploymentStore(w.lake).commit(w.loop.spec.first_deployment(), None)
    start = Reconfiguration(NAME, NAME, None, "T2", None, 1, 1, NOON, None, None, Outcome.OPEN)
    ReconfigurationStore(w.lake).record(start)
    w.clock.wait(60)
    assert gate(w).passed
    w.clock.wait(61)
    assert "121 s old; at most 120 s" in gate(w).sentence


@pytest.mark.parametrize(
    ("table", "column"), [("telemetry/batches", "batches_age_s"), ("telemetry/apps", "driver_age_s")]
)
def test_gate_when_a_table_is_stale_then_reports_its_age(w: World, table: str, column: str) -> None:
    read_to = gate(w).read_to
    w.clock.wait(150)
    if table == "telemetry/apps":
        write(w.lake, *good_rows(31, 40, w.clock()))
    else:
        write_app(w.lake, w.clock())
    result = gate(w, read_to)
    assert [f.column for f in result.failures] == [f"tables.{column}"]
    assert f"the newest row of {table} is 151 s old" in result.sentence


def test_gate_when_the_pipeline_is_stopped_then_accepts_old_telemetry(w: World) -> None:
    current = DeploymentStore(w.lake).latest(NAME)
    assert current is not None
    DeploymentStore(w.lake).commit(replace(current, running=False), 1)
    w.clock.wait(3600)
    assert gate(w).passed


def test_gate_is_not_fooled_by_a_row_from_the_future(w: World) -> None:
    refused = later(w, BAD["future"][0](new_rows()))
    w.clock.wait(200)
    assert any(f.column == "tables.driver_age_s" for f in gate(w, refused.read_to).failures)


def test_gate_names_the_future_if_all_rows_are_ahead(tmp_path: Path) -> None:
    w = world(tmp_path)
    DeploymentStore(w.lake).commit(w.loop.spec.first_deployment(), None)
    write(w.lake, *good_rows(0, 9, w.clock() + timedelta(hours=1)))
    write_app(w.lake, w.clock() - timedelta(seconds=1))
    assert gate(w).sentence.startswith("delays batch 0 of generation 1 is 3590 s in the future (and 9 more)")


def test_gate_when_a_column_is_missing_or_has_another_type_then_names_it(tmp_path: Path) -> None:
    w = world(tmp_path)
    DeploymentStore(w.lake).commit(w.loop.spec.first_deployment(), None)
    foreign = pa.table({"pipeline": [NAME], "time": pa.array([NOON], pa.timestamp("us", "UTC")), "rows_in": ["many"]})
    write_deltalake(str(w.lake.path("telemetry/batches")), foreign)
    write_app(w.lake, NOON)
    result = gate(w)
    told = {r.row for f in result.failures for r in f.rows}
    assert "telemetry/batches.app" in told or "telemetry/batches.rows_in" in told
    assert any("telemetry/batches.rows_in has another type" in f.sentence for f in result.failures)


@pytest.mark.parametrize(("empty", "sound"), [((40,), True), ((40, 41), False)])
def test_batch_without_rows_is_sound_if_it_only_moves_the_watermark(
    w: World, empty: tuple[int, ...], sound: bool
) -> None:
    one_waits = {"backlog_rows": 1, "source_end": 4001}
    rows = [row | (one_waits if row["batch_id"] in (39, *empty) else {}) for row in new_rows()]
    assert later(w, [row | ({"rows_in": 0} if row["batch_id"] in empty else {}) for row in rows]).passed is sound


def test_batch_that_moves_the_watermark_is_sound_if_rows_are_reported_while_it_runs(w: World) -> None:
    waits = {"backlog_rows": 1, "source_end": 4001}
    rows = [row | (waits if row["batch_id"] == 40 else {}) for row in new_rows()]
    last = next(row for row in rows if row["batch_id"] == 39)
    marker = last | waits | {"rows_in": 0, "durations_ms": {}, "time": last["time"] + timedelta(milliseconds=10)}
    rows = [row | ({"rows_in": 0} if row["batch_id"] == 40 else {}) for row in rows]
    assert later(w, [*rows, marker]).passed


def test_gate_when_waiting_rows_are_only_estimated_then_accepts_empty_batches(w: World) -> None:
    rows = [row | {"source_end": None, "arrival_basis": "listed"} for row in unread(new_rows())]
    assert later(w, rows).passed
    assert not later(w, [row | {"arrival_basis": "counted"} for row in unread(good_rows(51, 70, w.clock()))]).passed


def test_gate_when_the_log_is_broken_then_refuses_with_the_table(w: World) -> None:
    read_to = gate(w).read_to
    write(w.lake, *new_rows())
    newest = w.lake.path("telemetry/batches") / "_delta_log" / f"{w.lake.version('telemetry/batches'):020d}.json"
    newest.write_text("{broken")
    result = gate(w, read_to)
    assert not result.passed and "telemetry/batches" in result.sentence


def with_docs(home: Path) -> World:
    w = world(home)
    w.loop.gate = QualityGate(w.loop.spec, w.tables, DataDocs(home / "gx" / NAME))
    return w


def test_docs_are_rebuilt_only_after_a_change(tmp_path: Path) -> None:
    w = with_docs(tmp_path)
    w.run()
    first = gate(w)
    (index,) = (tmp_path / "gx" / NAME).glob("gx/uncommitted/data_docs/local_site/index.html")
    w.clock.wait(20)
    write_app(w.lake, w.clock())
    write(w.lake, *BAD["negative"][0](new_rows()))
    refused = gate(w, first.read_to)
    pages = list(index.parent.glob("validations/telemetry_batches/*/*/*.html"))
    assert any("-5" in page.read_text() for page in pages)
    gate(w, first.read_to)
    assert len(list(index.parent.glob("validations/telemetry_batches/*/*/*.html"))) == len(pages)
    w.clock.wait(EVERY_S + 1)
    gate(w, refused.read_to)
    assert len(list(index.parent.glob("validations/tables/*/*/*.html"))) == 3


def test_gate_still_judges_if_docs_cannot_be_written(tmp_path: Path) -> None:
    w = with_docs(tmp_path)
    w.run()
    (tmp_path / "gx").write_text("a file where the folder should be")
    result = gate(w)
    assert result.passed


def test_docs_are_not_rebuilt_while_telemetry_only_gets_older(tmp_path: Path) -> None:
    w = with_docs(tmp_path)
    w.run()
    read_to = gate(w).read_to
    for seconds in (600, 20, 20):
        w.clock.wait(seconds)
        refused = gate(w, read_to)
        assert not refused.passed and " s old" in refused.sentence
    assert len(list((tmp_path / "gx").glob("**/local_site/validations/tables/*/*/*.html"))) == 2


def shifted(number: int, seconds: int) -> Callable[[Rows], Rows]:
    """Move a batch's time back."""
    return lambda rows: [
        row | {"time": row["time"] - timedelta(seconds=seconds)} if row["batch_id"] == number else row for row in rows
    ]


def ahead(seconds: int) -> Callable[[Rows], Rows]:
    """Move all batches into the future."""
    return lambda rows: [row | {"time": row["time"] + timedelta(seconds=seconds)} for row in rows]


def silenced(number: int) -> Callable[[Rows], Rows]:
    """Claim that batches read nothing from a given one on, although rows arrived."""
    return lambda rows: [row | {"rows_in": 0} if row["batch_id"] >= number else row for row in rows]


def doubled(index: int) -> Callable[[Rows], Rows]:
    return lambda rows: [*rows, rows[index]]


numbers, negative = st.integers(31, 50), st.integers(-(10**9), -1)
corruptions = st.one_of(
    *(st.builds(changed, numbers, **{column: negative}) for column in ("rows_in", "backlog_rows", "source_end")),
    *(st.builds(changed, numbers, **{column: st.none()}) for column in ("rows_in", "slots", "batch_id", "query")),
    st.builds(changed, numbers, host_cpu_other=st.sampled_from([float("nan"), float("inf"), -0.1, 7.0])),
    st.builds(doubled, st.integers(0, 19)),
    st.builds(shifted, numbers, st.integers(2, 10**6)),
    st.builds(ahead, st.integers(30, 10**6)),
    st.builds(silenced, numbers),
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spoil=corruptions)
def test_evaluation_of_corrupted_telemetry_never_removes_slots(
    tmp_path_factory: pytest.TempPathFactory, spoil: Callable[[Rows], Rows]
) -> None:
    w = world(tmp_path_factory.mktemp("home"))
    w.run(slots=6)
    w.plant.arrival = 1440.0 - 1
    assert w.loop.decide(w.loop.observe()).action is Action.HOLD
    w.clock.wait(20)
    write_app(w.lake, w.clock())
    write(w.lake, *spoil(new_rows()))
    w.plant.arrival = 100.0  # an optimizer that trusts this would remove five slots
    decision = w.loop.decide(w.loop.observe())
    assert (decision.action, decision.reason_code) == (Action.HOLD, "data_quality")
    assert decision.target is None


def test_evaluation_of_the_same_telemetry_when_sound_does_remove_slots(w: World) -> None:
    w.plant.arrival = 100.0
    decision = w.loop.decide(w.loop.observe())
    assert decision.action is Action.APPLY and "slots 2 -> 1" in decision.sentence

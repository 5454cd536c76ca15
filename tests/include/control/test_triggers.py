"""Evaluations of apps whose trigger fires as fast as possible, or only twice per hour, on synthetic telemetry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.control.collect import collect
from millrace.control.loop import ControlLoop
from millrace.control.quality import QualityGate, quality_gate
from millrace.control.quality.measures import Part, measures
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.pace import late_after_s, pace_s
from millrace.lake.row_codec import app_row
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision, Outcome, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.errors import NotReady
from millrace.model.protocols import Cursor
from millrace.model.signals import Signals
from millrace.model.telemetry import AppMetrics
from millrace.optimizers.conttune.flow import Flow
from millrace.reporting.tracker import MlflowTracker
from tests.include.control.synthetic import App, add, spec

PER_SLOT = 250.0
"""Rows per second that a slot processes."""


@pytest.fixture(autouse=True)
def quick_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply the same limits to the same values without Great Expectations, which takes a second per evaluation."""

    def holds(parts: Sequence[Part]) -> bool:
        values = measures(parts)
        below = values["larger"] < values["smaller"]
        return not (below.any() or values["identity"].dropna().duplicated().any())

    monkeypatch.setattr(quality_gate, "sound", holds)


TRIGGERS_S = (0.0, 5.0, 120.0, 600.0, 900.0, 1800.0)


@dataclass
class Pipeline:
    """A synthetic app under the real gate, collection, tuner and guards."""

    lake: Lake
    app: App
    decisions: list[Decision] = field(default_factory=list)
    evaluated: datetime | None = None
    now: datetime = datetime.min

    def __post_init__(self) -> None:
        self.spec = spec(mode="auto", slots={"min": 1, "max": 8, "start": self.app.slots})
        self.tables = ControlTables(self.lake)
        DeploymentStore(self.lake).commit(self.spec.first_deployment(), None)
        gate, tracker = QualityGate(self.spec, self.tables), MlflowTracker(None)
        self.loop = ControlLoop(self.spec, self.tables, gate, self, {"flow": Flow()}, tracker, lambda: self.now)

    def observe(self, since: Cursor) -> Signals:
        return collect(self.spec, self.tables, since, self.now)

    def apply(self, target: Deployment) -> tuple[Reconfiguration, ...]:
        return ()

    def run(self, batches: int, rate: float) -> list[Decision]:
        """Run some batches; evaluate shortly before and after the end of each, if the period allows it."""
        made: list[Decision] = []
        for _ in range(batches):
            before = self.app.clock
            batch = self.app.batch(rate)
            made += self.evaluate(before + 0.98 * (self.app.clock - before))
            add(self.lake, [batch])
            made += self.evaluate(self.app.clock + timedelta(seconds=1))
        return made

    def evaluate(self, now: datetime) -> list[Decision]:
        if self.evaluated is not None and (now - self.evaluated).total_seconds() < self.spec.period_s:
            return []
        self.now = self.evaluated = now
        lived = AppMetrics("delays", "delays", now - timedelta(seconds=2), 1, 0.5, 10**8, 60.0)
        self.lake.append("telemetry/apps", [app_row(lived)])
        try:
            decision = self.loop.decide(self.loop.observe())
        except NotReady:
            return []  # nothing new: Airflow skips the task
        self.decisions.append(decision)
        if decision.action in (Action.APPLY, Action.ROLL_BACK):
            self._carry_out(decision)
        return [decision]

    def fall_silent(self) -> None:
        """Run for a minute, then process the rest."""
        rows = self.app.run(60, 100.0)
        add(self.lake, [*rows, self.app.batch(0.0), self.app.batch(0.0)])
        self.now = self.app.clock

    def resize(self, slots: int) -> None:
        """Set the app's slots, as a person would."""
        current = self.tables.deployments.latest("delays")
        assert current is not None
        apps = {"delays": replace(current.apps["delays"], slots=slots)}
        self.tables.deployments.commit(replace(current, version=current.version + 1, apps=apps), current.version)
        self._resized(None)

    def _carry_out(self, decision: Decision) -> None:
        self.loop.commit(decision)
        self._resized(decision.decision_id)

    def _resized(self, decision_id: str | None) -> None:
        version = self.tables.deployments.latest("delays")
        assert version is not None
        self.app.slots = version.apps["delays"].slots
        self.app.rows_per_s = PER_SLOT * self.app.slots
        change = Reconfiguration(
            "delays", "delays", decision_id, "T1", version.version - 1, version.version, 1,
            self.now, self.now, None, Outcome.READY,
        )  # fmt: skip
        self.tables.reconfigurations.record(change)


@pytest.mark.parametrize("trigger_s", TRIGGERS_S)
def test_overload_is_scaled_up_within_three_batches_at_any_trigger(tmp_path: Path, trigger_s: float) -> None:
    app = App(slots=2, rows_per_s=2 * PER_SLOT, trigger_s=trigger_s, fixed_s=2.0, noise=0.02)
    pipeline = Pipeline(Lake(tmp_path), app)
    add(pipeline.lake, [app.batch(0.55 * 2 * PER_SLOT) for _ in range(8)])
    calm = pipeline.run(3, 0.55 * 2 * PER_SLOT)
    assert {d.action for d in calm} == {Action.HOLD}, [d.sentence for d in calm]
    assert app.slots == 2
    busy = pipeline.run(3, 1.5 * 2 * PER_SLOT)
    assert app.slots > 2, [d.sentence for d in busy]
    pipeline.run(5, 1.5 * 2 * PER_SLOT)
    assert {d.action for d in pipeline.decisions} == {Action.HOLD, Action.APPLY}
    assert "data_quality" not in {d.reason_code for d in pipeline.decisions}
    after = pipeline.run(2, 1.5 * 2 * PER_SLOT)
    assert {d.action for d in after} == {Action.HOLD}, [d.sentence for d in after]
    assert "settle" not in after[-1].sentence
    assert 3 * PER_SLOT < app.rows_per_s < 8 * PER_SLOT


@pytest.mark.parametrize("trigger_s", [600.0, 1800.0])
def test_fall_of_the_load_is_followed_at_a_slow_trigger(tmp_path: Path, trigger_s: float) -> None:
    app = App(slots=6, rows_per_s=6 * PER_SLOT, trigger_s=trigger_s, fixed_s=2.0, noise=0.02)
    pipeline = Pipeline(Lake(tmp_path), app)
    add(pipeline.lake, [app.batch(0.7 * 6 * PER_SLOT) for _ in range(8)])
    assert {d.action for d in pipeline.run(3, 0.7 * 6 * PER_SLOT)} == {Action.HOLD}
    fallen = pipeline.run(8, 0.2 * 6 * PER_SLOT)
    assert app.slots < 6, [d.sentence for d in fallen]
    assert {d.reason_code for d in fallen} & {"data_quality", "rate_unknown", "capacity_unknown"} == set()
    calm = pipeline.run(3, 0.2 * 6 * PER_SLOT)
    assert app.rows_per_s > 0.2 * 6 * PER_SLOT and {d.action for d in calm} <= {Action.HOLD, Action.APPLY}


@pytest.mark.parametrize("trigger_s", [120.0, 900.0])
def test_rows_left_by_limited_batches_do_not_justify_slots_while_the_trigger_idles(
    tmp_path: Path, trigger_s: float
) -> None:
    limit = round(0.4 * 2 * PER_SLOT * trigger_s)
    app = App(slots=2, rows_per_s=2 * PER_SLOT, trigger_s=trigger_s, fixed_s=2.0, noise=0.02, cap=limit)
    pipeline = Pipeline(Lake(tmp_path), app)
    add(pipeline.lake, [app.batch(0.6 * 2 * PER_SLOT) for _ in range(8)])
    made = pipeline.run(2, 0.6 * 2 * PER_SLOT)
    assert {d.action for d in made} == {Action.HOLD}, [d.sentence for d in made]
    assert made[-1].reason_code == "held_by_trigger"
    assert f"the trigger of {trigger_s:g} s" in made[-1].sentence and "read limit" in made[-1].sentence


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
@pytest.mark.parametrize("waiting", [0, 500])
def test_silence_settles_a_change_and_reports_no_missing_executor(
    tmp_path: Path, before: int, after: int, waiting: int
) -> None:
    app = App(slots=before, rows_per_s=before * PER_SLOT)
    pipeline = Pipeline(Lake(tmp_path), app)
    pipeline.fall_silent()
    pipeline.resize(after)
    add(pipeline.lake, [replace(marker, backlog_rows=waiting) for marker in app.idle(30)])
    (decision,) = pipeline.evaluate(app.clock + timedelta(seconds=1))
    assert decision.signals is not None and not decision.signals.settling
    assert decision.signals.apps[0].slots == after
    assert "settled" not in decision.sentence and "no room" not in decision.sentence


def test_missing_executors_are_reported_while_markers_show_fewer_slots(tmp_path: Path) -> None:
    app = App(slots=1, rows_per_s=PER_SLOT)
    pipeline = Pipeline(Lake(tmp_path), app)
    pipeline.fall_silent()
    pipeline.resize(2)
    app.slots = 1
    add(pipeline.lake, app.idle(30))
    (decision,) = pipeline.evaluate(app.clock + timedelta(seconds=1))
    assert "1 of its 2 slots: the cluster has not provided the other executors" in decision.sentence


def test_batches_lengthened_by_pauses_are_seen_at_once_and_get_slots(tmp_path: Path) -> None:
    app = App(slots=3, rows_per_s=3 * PER_SLOT, noise=0.02)
    pipeline = Pipeline(Lake(tmp_path), app)
    add(pipeline.lake, [app.batch(400.0) for _ in range(20)])
    calm = pipeline.run(5, 400.0)
    assert {d.action for d in calm} == {Action.HOLD}, [d.sentence for d in calm]
    app.rows_per_s /= 2  # as if a garbage collector paused for half of the time
    slow = pipeline.run(6, 400.0)
    assert [d.action for d in slow[-1:]] == [Action.APPLY], [d.sentence for d in slow]
    capacity = slow[-1].signals.apps[0].capacity
    assert capacity is not None and capacity.rows_per_s == pytest.approx(1.5 * PER_SLOT, rel=0.1)
    assert app.slots > 3


BATCH = {"query": "q", "generation": 1, "trigger_s": 600.0, "durations_ms": {"triggerExecution": 5000}}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], 0.0),
        ([{}], 0.0),
        ([BATCH], 600.0),
        ([BATCH | {"durations_ms": {"triggerExecution": 900_000}}, BATCH], 900.0),
        ([BATCH | {"trigger_s": None}], 5.0),
        ([BATCH, BATCH | {"trigger_s": 0.0, "durations_ms": []}], 5.0),
        ([BATCH, BATCH | {"generation": 2, "trigger_s": 0.0, "query": "r"}], 5.0),
        ([BATCH, BATCH | {"query": "r", "trigger_s": 60.0}], 600.0),
        ([BATCH | {"trigger_s": float("nan"), "durations_ms": None, "generation": None}], 0.0),
    ],
)
def test_pace_is_the_longest_usual_time_between_batches(rows: list[dict[str, Any]], expected: float) -> None:
    assert pace_s(rows) == expected
    assert late_after_s(expected, 120.0) >= 120.0 + 2 * expected, "a batch may take twice as long as the one before"

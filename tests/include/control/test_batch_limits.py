"""Batches that are too small, through the real collection, optimizers, guards and verification."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.control.collect import collect
from millrace.control.guard_context import read_guard_context
from millrace.control.loop import ControlLoop
from millrace.control.retry_guard import objection
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision, Outcome, Reconfiguration
from millrace.model.deployment import Change, Deployment
from millrace.model.errors import NotReady
from millrace.model.protocols import Cursor
from millrace.model.signals import Signals
from millrace.optimizers.registry import all_of
from millrace.reporting.tracker import MlflowTracker
from tests.include.control.synthetic import App, add, spec
from tests.include.control.world import Clock, PassingGate

FILES, ROWS_PER_FILE, RATE = "maxFilesPerTrigger", 40, 60.0
PER_S = 200.0
"""Rows per second of two slots; batches cost three seconds besides, so 200 rows come out at 50 rows/s."""


@dataclass
class Limited:
    """A synthetic app of two slots that reads some files per batch."""

    lake: Lake
    changes: dict[str, Any]
    dear: bool = False
    app: App = field(default_factory=lambda: App(slots=2, fixed_s=3.0, rows_per_s=PER_S, noise=0.02))
    decisions: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        given: dict[str, Any] = {
            "mode": "auto",
            "slots": {"min": 2, "max": 2, "start": 2},
            "guards": {"cool_down_s": 0},
        }
        given |= {"submit": {"master": "local", "tune_batches": True}}
        self.spec = spec(**(given | self.changes))
        self.tables, self.clock = ControlTables(self.lake), Clock()
        DeploymentStore(self.lake).commit(self.spec.first_deployment(), None)
        gate, tracker = PassingGate(self.clock), MlflowTracker(None)
        self.loop = ControlLoop(self.spec, self.tables, gate, self, all_of(self.spec), tracker, self.clock)
        self.limit = 5

    def observe(self, since: Cursor) -> Signals:
        return collect(self.spec, self.tables, since, self.clock.now)

    def apply(self, target: Deployment) -> tuple[Reconfiguration, ...]:
        return ()

    def run(self, evaluations: int, rate: float = RATE) -> list[Decision]:
        """Let some periods pass, each with an evaluation at its end."""
        made: list[Decision] = []
        while len(made) < evaluations:
            self.app.cap = self.limit * ROWS_PER_FILE
            self.app.rows_per_s = PER_S * 5 / self.limit if self.dear else PER_S
            end = self.app.clock + timedelta(seconds=self.spec.period_s)
            rows = []
            while self.app.clock < end:
                rows.append(replace(self.app.batch(rate), limits={FILES: self.limit}))
            add(self.lake, rows)
            made += self.evaluate(self.app.clock + timedelta(seconds=1))
        return made

    def evaluate(self, now: datetime) -> list[Decision]:
        self.clock.now = now
        try:
            decision = self.loop.decide(self.loop.observe())
        except NotReady:
            return []
        self.decisions.append(decision)
        if decision.action in (Action.APPLY, Action.ROLL_BACK):
            self.loop.commit(decision)
            self.restart(decision)
        return [decision]

    def restart(self, decision: Decision) -> None:
        """Start the next driver, as the reconciler would."""
        version = self.tables.deployments.latest("delays")
        assert version is not None
        self.limit = version.apps["delays"].batch_limits[FILES]
        began = self.app.clock
        self.app.restart(5.0, RATE, 2, self.app.rows_per_s)
        change = Reconfiguration(
            "delays", "delays", decision.decision_id, "T2", version.version - 1, version.version, self.app.generation,
            began, self.app.clock, 5.0, Outcome.READY,
        )  # fmt: skip
        self.tables.reconfigurations.record(change)


def raised(decisions: list[Decision]) -> list[tuple[float, float]]:
    return [(c.before, c.value) for d in decisions for c in d.changes if c.field == "batch_limit"]


def test_larger_batches_let_a_job_at_its_maximum_keep_up(tmp_path: Path) -> None:
    limited = Limited(Lake(tmp_path), {})
    made = limited.run(30)
    steps = raised(made)
    assert [before for before, _ in steps] == [5] and 8 <= steps[0][1] <= 20
    change = next(d for d in made if d.changes)
    assert change.sentence.startswith(f"delays: {FILES} 5 -> {steps[0][1]}: 60 rows/s arrived in the last")
    assert "2 slots can then sustain" in change.sentence and change.predicted["sustainable_rows_per_s"] > RATE
    before = next(d for d in made if f"Raising {FILES} from 5" in d.sentence)
    assert before.action is Action.HOLD and before.time < change.time
    app = made[-1].signals.apps[0] if made[-1].signals else None
    assert app is not None and (app.backlog_rows or 0) < RATE * limited.spec.objective.max_lag_s
    (recorded,) = [c for c in limited.tables.reconfigurations.recent("delays") if c.decision_id]
    assert recorded.achieved["sustainable_rows_per_s"] == pytest.approx(
        change.predicted["sustainable_rows_per_s"], rel=0.2
    )


def test_larger_batches_are_rolled_back_if_their_rows_cost_more(tmp_path: Path) -> None:
    limited = Limited(Lake(tmp_path), {}, dear=True)
    made = limited.run(8)
    undone = [d for d in made if d.action is Action.ROLL_BACK]
    assert [d.reason_code for d in undone] == ["gain_missed"], [d.sentence for d in made]
    assert f"the step of {FILES} from 5 to" in undone[0].sentence and limited.limit == 5
    current = limited.tables.deployments.latest("delays")
    assert current is not None
    again = current.with_changes((Change("delays", "batch_limit", 5, 40, operator=FILES),))
    guards = read_guard_context(limited.spec, limited.tables, current, limited.clock.now, [], signals=made[-1].signals)
    assert f"delays: {FILES} 5 -> 12 was rolled back" in (objection(guards, again) or "")


@pytest.mark.parametrize("trigger_s", [600.0, 1800.0])
def test_batches_grow_to_hold_the_rows_of_a_slow_trigger(tmp_path: Path, trigger_s: float) -> None:
    limited = Limited(Lake(tmp_path), {"period_s": 60})
    limited.app = App(slots=2, fixed_s=3.0, rows_per_s=PER_S, noise=0.02, trigger_s=trigger_s)
    limited.limit = round(0.4 * RATE * trigger_s / ROWS_PER_FILE)
    made = limited.run(20)
    (change,) = raised(made)
    assert change[1] * ROWS_PER_FILE > RATE * trigger_s, [d.sentence for d in made]
    assert any(d.reason_code == "held_by_trigger" and f"Raising {FILES} from" in d.sentence for d in made)
    app = made[-1].signals.apps[0] if made[-1].signals else None
    assert app is not None and (app.backlog_rows or 0) < 1.2 * RATE * trigger_s


@pytest.mark.parametrize(
    ("changes", "action", "sentence"),
    [
        ({"mode": "advise"}, Action.ADVISE, f"Advice only: delays: {FILES} 5 -> "),
        ({"mode": "approve"}, Action.AWAIT, f"Waiting for approval: delays: {FILES} 5 -> "),
        ({"guards": {"quiet_hours": ["00:00-24:00"]}}, Action.VETO, "quiet hours"),
        ({"owners": {"batch_limit": "person"}}, Action.ADVISE, "batch_limit belongs to person"),
        ({"submit": {"master": "local"}}, Action.HOLD, f" Raise {FILES} from 5 to "),
    ],
)
def test_larger_batches_pass_the_mode_and_the_guards(
    tmp_path: Path, changes: dict[str, Any], action: Action, sentence: str
) -> None:
    limited = Limited(Lake(tmp_path), changes)
    made = limited.run(8)
    assert any(d.action is action and sentence in d.sentence for d in made), [d.sentence for d in made]
    assert limited.limit == 5

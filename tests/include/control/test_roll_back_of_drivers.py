"""A change whose drivers die is rolled back. Processes are real and killed; drivers are doubles without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.control.evaluation import GateResult
from millrace.control.loop import ControlLoop
from millrace.control.spark_plant import SparkPlant
from millrace.lake.control_tables import ControlTables
from millrace.model.decision import Action, Decision, Outcome, Proposal
from millrace.model.deployment import Change
from millrace.model.errors import NotReady
from millrace.model.protocols import Cursor
from millrace.model.spec import Mode
from millrace.reporting.tracker import MlflowTracker
from tests.include.drivers.plant_of_doubles import NAME, DoublesPlant


class SilentGate:
    """Finds no telemetry, and accepts that."""

    def check(self, since: Cursor, now: datetime) -> GateResult:
        return GateResult(True, read_to=since)


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[DoublesPlant]:
    made = DoublesPlant(tmp_path)
    yield made
    made.close()


@dataclass
class Clock:
    """A clock that can be moved forward, to make restarts due and end the cool-down."""

    ahead_s: float = 60.0

    def __call__(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.ahead_s)


def test_change_whose_drivers_are_killed_before_they_report_is_rolled_back(plant: DoublesPlant) -> None:
    tables, later = ControlTables(plant.lake), Clock()
    reconciler = plant.reconciler(clock=later)
    first = plant.deploy()
    plant.reconciler().reconcile()
    target = first.with_changes((Change(NAME, "slots", 1, 2),))
    proposal = Proposal("flow", (Change(NAME, "slots", 1, 2),), "under_provisioned", "more is needed")
    target = replace(target, author="decision", decision_id="d1")
    tables.decisions.record(
        Decision("d1", NAME, datetime.now(UTC), Action.APPLY, "x", "", None, 1, (proposal,), target=target)
    )
    spec, driven = plant.spec.model_copy(update={"mode": Mode.AUTO}), SparkPlant(plant.spec, tables, reconciler, later)
    loop = ControlLoop(spec, tables, SilentGate(), driven, {}, MlflowTracker(None), later)
    loop.apply("d1")
    assert plant.versions() == [(2, 2)]
    with pytest.raises(NotReady):
        loop.observe()
    for _ in range(2):
        plant.kill(plant.live()[0])
        healed = [*reconciler.reconcile()]
        later.ahead_s += 60
        healed += reconciler.reconcile()
        assert [change.outcome for change in healed] == [Outcome.READY]
    later.ahead_s += plant.spec.guards.cool_down_s
    decision = loop.decide(loop.observe())
    assert (decision.action, decision.reason_code) == (Action.ROLL_BACK, "died_after_change")
    assert "2 drivers died since the step from 1 to 2 slots" in decision.sentence
    loop.apply(decision.decision_id)
    assert plant.versions() == [(5, 3)]
    newest = tables.deployments.latest(NAME)
    assert newest is not None and newest.apps == first.apps

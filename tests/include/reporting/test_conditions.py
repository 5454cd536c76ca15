"""The state of a pipeline as conditions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.signals import Signals
from millrace.optimizers.conformance.builders import app_signals, capacity, deployment, signals
from millrace.reporting.conditions import Truth, conditions

WANTED = deployment(4)
START = datetime(2013, 1, 1, tzinfo=UTC)
DONE = Reconfiguration("orders", "orders", "d1", "T1", 1, 2, 1, START, START, 0.0, Outcome.READY)


def states(wanted: Deployment = WANTED, seen: Signals | None = None, **known: object) -> dict[str, tuple[str, str]]:
    given = {"alive": True, "change": None, "problem": None, **known}
    found = conditions(wanted, signals=seen, **given)  # type: ignore[arg-type]
    assert all(condition.message.endswith((".", "poison")) for condition in found)
    return {condition.type: (condition.status.value, condition.reason) for condition in found}


def measured(arrival: float | None, ability: float, waiting: int = 0) -> Signals:
    return signals(app_signals(4, arrival, capacity(4, ability, fixed_s=0.0), backlog_rows=waiting))


def test_pipeline_that_keeps_up_is_running_and_healthy() -> None:
    found = states(seen=measured(50.0, 100.0, 40), change=DONE)
    assert found == {"Running": ("True", "DriverAlive"), "Scaling": ("False", "Stable"), "Healthy": ("True", "KeepsUp")}


@pytest.mark.parametrize("seen", [measured(120.0, 100.0), measured(50.0, 100.0, 90_000)])
def test_app_that_gets_more_than_it_sustains_or_that_has_much_to_catch_up_is_not_healthy(seen: Signals) -> None:
    assert states(seen=seen)["Healthy"] == ("False", "Behind")


def test_health_is_unknown_until_throughput_and_arrival_are_measured() -> None:
    assert states()["Healthy"] == ("Unknown", "NotMeasured")
    assert states(seen=measured(None, 100.0))["Healthy"] == ("Unknown", "NotMeasured")
    assert states(seen=measured(50.0, 100.0), alive=False)["Healthy"] == ("Unknown", "NotMeasured")
    silent = replace(measured(50.0, 100.0), unmeasured=("gold",))
    assert states(seen=silent)["Healthy"] == ("Unknown", "NotMeasured"), "one of several apps"


def test_pipeline_with_a_problem_is_neither_running_nor_healthy() -> None:
    found = states(problem="ValueError: poison", seen=measured(50.0, 100.0))
    assert (found["Running"], found["Healthy"]) == (("False", "Failed"), ("False", "Failed"))


@pytest.mark.parametrize(
    ("wanted", "alive", "reason"),
    [
        (replace(WANTED, running=False), False, ("False", "Stopped")),
        (replace(WANTED, running=False, finished=START), False, ("False", "Finished")),
        (WANTED, False, ("False", "Starting")),
        (replace(WANTED, detached=True), True, ("True", "Detached")),
    ],
)
def test_running_says_why_not(wanted: Deployment, alive: bool, reason: tuple[str, str]) -> None:
    assert states(wanted, alive=alive)["Running"] == reason


def test_scaling_holds_while_a_change_is_open_and_says_how_the_last_one_ended() -> None:
    assert states()["Scaling"] == ("False", "NeverChanged")
    assert states(change=replace(DONE, outcome=Outcome.OPEN))["Scaling"] == ("True", "ChangeOpen")
    failed = replace(DONE, outcome=Outcome.FAILED, error="no memory.")
    (_, scaling, _) = conditions(WANTED, alive=True, change=failed, problem=None, signals=None)
    assert scaling.status is Truth.FALSE and "failed: no memory" in scaling.message

"""Which alerts are due: each problem once, and lasting problems once per day."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.control.alerts import HOLDS, due
from millrace.control.pending_decision import refuse
from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.model.alert import Alert, AlertKind
from millrace.model.decision import Action, Decision, Outcome, Reconfiguration
from millrace.model.query_failure import QueryFailure
from tests.include.control.world import NAME, NOON, spec

SPEC = spec(approval_expires_s=600.0)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def tables(tmp_path: Path) -> ControlTables:
    tables = ControlTables(Lake(tmp_path / "lake"))
    tables.deployments.commit(SPEC.first_deployment(), None)
    return tables


def decided(
    tables: ControlTables, number: int, action: Action, reason: str = "load", time: datetime = NOON
) -> Decision:
    decision = Decision(f"{time:%Y%m%dT%H%M%S}-{number:08x}", NAME, time, action, reason, f"sentence {number}")
    tables.decisions.record(decision)
    return decision


def changed(tables: ControlTables, outcome: Outcome, minute: int = 0, **given: Any) -> None:
    started = NOON + minute * MINUTE
    change = Reconfiguration(NAME, NAME, None, "T2", 1, 2, 1 + minute, started, started + MINUTE, None, outcome)
    tables.reconfigurations.record(replace(change, **given))


def told(
    tables: ControlTables,
    now: datetime = NOON + 5 * MINUTE,
    problem: str | None = None,
    failed: tuple[QueryFailure, ...] = (),
) -> list[tuple[str, str]]:
    """Return kinds and sentences of due alerts, and record them as sent."""
    alerts = due(SPEC, tables, problem, now, failed)
    tables.alerts.record(alerts)
    return [(alert.kind.value, alert.sentence) for alert in alerts]


@pytest.mark.parametrize(
    ("action", "reason", "kind"),
    [
        (Action.AWAIT, "load", "approval"),
        (Action.ROLL_BACK, "missed", "rolled_back"),
        (Action.VETO, "rejected", "rejected"),
        (Action.VETO, "expired", "rejected"),
        (Action.VETO, "cool_down", None),
        (Action.APPLY, "load", None),
        (Action.HOLD, "data_quality", None),
    ],
)
def test_decision_that_a_person_must_know_of_alerts_once(
    tables: ControlTables, action: Action, reason: str, kind: str | None
) -> None:
    decided(tables, 1, action, reason)
    assert told(tables) == ([(kind, "sentence 1")] if kind else [])
    written = tables.lake.version("control/alerts")
    assert told(tables) == []
    assert tables.lake.version("control/alerts") == written, "a minute in which nothing happened leaves no commit"


def test_answered_question_does_not_alert(tables: ControlTables) -> None:
    decided(tables, 1, Action.AWAIT)
    assert told(tables, NOON + 11 * MINUTE) == []


def test_question_that_a_person_has_answered_does_not_alert(tables: ControlTables) -> None:
    asked = decided(tables, 1, Action.AWAIT)
    refuse(tables, NAME, asked.decision_id, "ada", NOON + MINUTE)
    assert [kind for kind, _ in told(tables)] == ["rejected"]


def test_old_event_does_not_alert(tables: ControlTables) -> None:
    decided(tables, 1, Action.ROLL_BACK)
    changed(tables, Outcome.ROLLED_BACK)
    assert told(tables, NOON + 62 * MINUTE) == []


def test_evaluations_that_hold_repeatedly_for_one_fault_alert_once_per_day(tables: ControlTables) -> None:
    def hold(day: int, reasons: list[str]) -> datetime:
        begin = NOON + timedelta(days=day)
        for number, reason in enumerate(reasons):
            decided(tables, 100 * day + number, Action.HOLD, reason, begin + number * MINUTE)
        return begin + len(reasons) * MINUTE

    assert told(tables, hold(0, ["data_quality"] * (HOLDS - 1) + ["collect_failed"])) == []
    now = hold(1, ["data_quality"] * HOLDS)
    ((kind, sentence),) = told(tables, now)
    assert kind == "holds" and f"{HOLDS} evaluations" in sentence and "sentence 109" in sentence
    assert told(tables, now + MINUTE) == []
    assert len(told(tables, hold(2, ["data_quality"] * HOLDS) + MINUTE)) == 1
    assert told(tables, hold(3, ["well_provisioned"] * HOLDS)) == []


@pytest.mark.parametrize(("apart", "alerts"), [(1, []), (10, []), (15, ["holds"]), (30, ["holds"])])
def test_three_evaluations_that_hold_for_one_fault_are_enough_if_far_apart(
    tables: ControlTables, apart: int, alerts: list[str]
) -> None:
    times = [NOON + number * apart * MINUTE for number in range(3)]
    for number, time in enumerate(times):
        decided(tables, number, Action.HOLD, "data_quality", time)
    assert [kind for kind, _ in told(tables, times[-1] + MINUTE)] == alerts


def test_circuit_that_reopens_for_one_version_alerts_once(tables: ControlTables) -> None:
    changed(tables, Outcome.CIRCUIT_OPEN, error="no such topic")
    log = f"Log: logs/drivers/driver-{NAME}-{NAME}-1.log in MILLRACE_HOME."
    remedy = f"Fix the cause, then run ./millrace trigger {NAME}."
    assert told(tables) == [("circuit_open", f"Version 2 of {NAME} keeps failing: no such topic. {remedy} {log}")]
    changed(tables, Outcome.CIRCUIT_OPEN, 3, error="no such topic")
    changed(tables, Outcome.READY, 4)
    assert told(tables) == []
    changed(tables, Outcome.ROLLED_BACK, 5, to_version=3)
    assert [kind for kind, _ in told(tables)] == ["rolled_back"]


def test_pipeline_alerts_when_it_stops_running_and_when_it_runs_again(tables: ControlTables) -> None:
    assert told(tables) == []
    assert told(tables, problem="it died") == [("not_running", "it died")]
    assert told(tables, NOON + 6 * MINUTE, problem="it died twice") == []
    assert told(tables, NOON + 7 * MINUTE) == [("running", "The pipeline is running again.")]
    assert told(tables, NOON + 8 * MINUTE) == []
    assert told(tables, NOON + 9 * MINUTE, problem="it died") == [("not_running", "it died")]


@pytest.mark.parametrize("state", [{"running": False}, {"detached": True}])
def test_pipeline_that_a_person_stops_or_detaches_does_not_run_again(
    tables: ControlTables, state: dict[str, bool]
) -> None:
    assert told(tables, problem="it died")
    first = tables.deployments.latest(NAME)
    assert first is not None
    tables.deployments.commit(replace(first, **state, reason="ada took care of it."), 1)
    why = "The pipeline no longer has to run: ada took care of it."
    assert told(tables, NOON + 6 * MINUTE, problem="its driver still runs") == [("running", why)]
    assert told(tables, NOON + 7 * MINUTE, problem="its driver still runs") == []


def test_fault_that_comes_back_within_a_day_alerts_again(tables: ControlTables) -> None:
    def held(first: int, reason: str = "collect_failed") -> list[str]:
        for minute in range(first, first + HOLDS):
            decided(tables, minute, Action.HOLD, reason, NOON + minute * MINUTE)
        return [kind for kind, _ in told(tables, NOON + (first + HOLDS) * MINUTE)]

    assert held(0) == ["holds"]
    assert held(10) == [], "it is still there"
    assert held(20, "fits") == []
    assert held(30) == ["holds"]


def test_pipeline_that_does_not_run_for_days_alerts_every_day(tables: ControlTables) -> None:
    assert told(tables, problem="it died")
    assert told(tables, NOON + timedelta(days=1), problem="it died") == []
    assert told(tables, NOON + timedelta(days=1, minutes=6), problem="it died") == [("not_running", "it died")]


def test_alerts_ignore_other_pipelines(tables: ControlTables) -> None:
    decided(tables, 1, Action.ROLL_BACK)
    tables.alerts.record([Alert("other", NOON, AlertKind.NOT_RUNNING, "", "it died")])
    assert [kind for kind, _ in told(tables)] == ["rolled_back"]


def test_failed_query_among_others_alerts_once_per_failure(tables: ControlTables) -> None:
    first = QueryFailure("orders", NOON, "ValueError: poison")
    sentence = "Query orders failed at 12:00:00 UTC and does not run: ValueError: poison."
    assert told(tables, failed=(first,)) == [("query_failed", sentence)]
    assert told(tables, failed=(first,)) == []
    again = replace(first, at=NOON + MINUTE)
    assert [kind for kind, _ in told(tables, failed=(again,))] == ["query_failed"]

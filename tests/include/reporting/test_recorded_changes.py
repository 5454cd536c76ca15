from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.deployment import AppDeployment, Deployment
from millrace.reporting.recorded_changes import DOWNTIME_S, RecordedChanges

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
ONE = Deployment("a", 1, True, {"a": AppDeployment("a.py", (), 2, 1024, 8)})
TWO = Deployment("a", 2, True, {"a": AppDeployment("a.py", (), 5, 1024, 8)})


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def change(begin: float, end: float | None, downtime_s: float | None = 8.0) -> Reconfiguration:
    outcome = Outcome.OPEN if end is None else Outcome.READY
    return Reconfiguration("a", "a", "d", "T2", 1, 2, 2, at(begin), end and at(end), downtime_s, outcome)  # type: ignore[arg-type]


def test_changes_at_a_time_are_as_known_then() -> None:
    done = replace(change(10, 12), achieved={"slots": 5.0})
    changes = RecordedChanges([change(1, 2), done])
    assert changes.known(at(5)) == (change(1, 2),)
    (running, _) = changes.known(at(11))
    assert (running.ended, running.outcome, running.achieved) == (None, Outcome.OPEN, {})
    assert changes.known(at(20)) == (done, change(1, 2))


def test_changes_are_the_replays_own_once_it_has_diverged() -> None:
    changes = RecordedChanges([change(1, 2), change(10, 12)])
    changes.leave(at(5))
    (made,) = own = changes.restarts(ONE, TWO, "d9", at(5))
    changes.add(own)
    assert (made.decision_id, made.from_version, made.to_version, made.downtime_s) == ("d9", 1, 2, 8.0)
    assert changes.known(at(20)) == (made, change(1, 2))
    assert changes.last_restart(made.app, 2) == made == changes.last_restart(made.app, 3), "another app changed since"
    assert changes.last_restart(made.app, 1) is changes.last_restart("other", 2) is None
    changes.follow(at(9))
    assert changes.known(at(20)) == (change(10, 12), made, change(1, 2))


def test_restarts_when_no_app_differs_then_are_none() -> None:
    assert RecordedChanges([]).restarts(ONE, ONE, "d", NOON) == ()


def test_downtime_is_given_or_the_recorded_median_or_the_usual() -> None:
    recorded = [change(1, 2, 4.0), change(3, 4, 9.0), change(5, 6, 7.0), change(7, 8, None), change(9, None, None)]
    assert RecordedChanges(recorded).downtime_s == 7.0
    assert RecordedChanges([]).downtime_s == DOWNTIME_S
    assert RecordedChanges(recorded, 2.5).downtime_s == 2.5
    (made,) = RecordedChanges([change(1, 2)]).restarts(ONE, TWO, "d", NOON)
    assert made.ended == at(1), "it takes as long as recorded ones took"

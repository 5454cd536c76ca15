from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from millrace.model.decision import Action, Decision
from millrace.model.deployment import AppDeployment, Change, Deployment
from millrace.model.errors import MillraceError, NotReady
from millrace.model.protocols import Cursor, Plant
from millrace.model.signals import AppSignals, Capacity, Observation, Signals
from millrace.reporting.recorded_plant import RecordedPlant

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
TO_FOUR = (Change("a", "slots", 2, 4),)


def deployment(version: int, slots: int, author: str = "decision") -> Deployment:
    app = AppDeployment("a.py", (), slots, 1024, 8)
    return Deployment("a", version, True, {"a": app}, author)


def decision_at(number: int, slots: int, version: int = 1, backlog: int = 300, **more: object) -> Decision:
    now = NOON + timedelta(minutes=number)
    capacity = Capacity(slots, 0.5, 250.0 * slots, 5.0, 9)
    app = AppSignals("a", slots, slots, False, 300.0, 300.0, backlog, 0.0, 9, 8, 0.9, 0.0, 0.5, capacity)
    points = tuple(Observation("a", slots, 250.0 * slots, 5.0, 9, NOON) for _ in range(number))
    signals = Signals("a", now - timedelta(minutes=1), now, number, version, (app,), points)
    plain = {"action": Action.HOLD, "signals": signals, "base_version": version, **more}
    return Decision(decision_id=f"d{number}", pipeline="a", time=now, reason_code="", sentence="", **plain)  # type: ignore[arg-type]


def plant(
    *evaluations: Decision, deployments: Sequence[Deployment] = (deployment(1, 2), deployment(2, 4))
) -> RecordedPlant:
    return RecordedPlant(evaluations, {d.version: d for d in deployments}, ())


def test_plant_follows_the_protocol() -> None:
    made: Plant = plant(decision_at(1, 2))
    assert made.observe(Cursor()) is not None


def test_evaluation_on_recorded_slots_is_unchanged() -> None:
    evaluations = [decision_at(1, 2), decision_at(2, 2), decision_at(3, 2)]
    made = plant(*evaluations)
    for recorded in evaluations:
        assert made.observe(Cursor()) is recorded.signals
        assert not made.modelled and made.deployment == deployment(1, 2) and made.recorded is recorded
    with pytest.raises(NotReady):
        made.observe(Cursor())


def test_evaluation_after_the_same_decision_is_recorded() -> None:
    back = deployment(3, 2, "reconciler")  # version 2 failed
    decided = decision_at(1, 2, action=Action.APPLY, target=deployment(1, 4))
    made = plant(decided, decision_at(2, 2, 3), deployments=[deployment(1, 2), deployment(2, 4), back])
    made.observe(Cursor())
    made.apply(deployment(1, 2).with_changes(TO_FOUR))
    made.observe(Cursor())
    assert not made.modelled and made.deployment == back


def test_evaluation_after_another_decision_is_modelled() -> None:
    made = plant(decision_at(1, 2), decision_at(2, 2), decision_at(3, 2))
    made.observe(Cursor())
    (restart,) = made.apply(deployment(1, 2).with_changes(TO_FOUR))
    assert (restart.from_version, restart.to_version, restart.decision_id) == (1, 3, "d1")
    second = made.observe(Cursor())
    assert made.modelled and second.apps[0].slots == 4
    assert second.deployment_version == made.deployment.version == 3
    # the first evaluation's one point, and that evaluation itself; not the second point that the recording had by then
    assert [o.parallelism for o in second.observations] == [2, 2]
    third = made.observe(Cursor())
    assert [o.parallelism for o in third.observations] == [2, 2, 4]


def test_app_that_the_replay_restarts_settles_and_the_others_do_not() -> None:
    def two(number: int, settling: bool = False) -> Decision:
        one = decision_at(number, 2)
        assert one.signals is not None
        (app,) = one.signals.apps
        both = app, replace(app, app="b", settling=settling)
        return replace(one, signals=replace(one.signals, apps=both, settling=settling))

    first = replace(deployment(1, 2), apps={name: deployment(1, 2).apps["a"] for name in "ab"})
    late = two(2, settling=True)
    assert late.signals is not None
    quick = replace(late, signals=replace(late.signals, until=NOON + timedelta(seconds=76)))
    made = RecordedPlant([two(1), quick], {1: first}, ())
    made.observe(Cursor())
    made.apply(first.with_changes(TO_FOUR))
    modelled = made.observe(Cursor())
    assert made.modelled and [app.settling for app in modelled.apps] == [True, False] and modelled.settling
    of_a, of_b = modelled.apps
    assert of_a.healthy_batches < of_a.batches and of_b.healthy_batches == of_b.batches, "only one had a downtime"


def test_evaluation_after_a_change_not_followed_is_modelled() -> None:
    made = plant(decision_at(1, 2, action=Action.APPLY, target=deployment(1, 4)), decision_at(2, 4, 2))
    made.observe(Cursor())
    signals = made.observe(Cursor())
    assert made.modelled and signals.apps[0].slots == 2 and made.deployment == deployment(1, 2)


@pytest.mark.parametrize(("backlog", "joined"), [(400, True), (9_000, False)])
def test_evaluation_rejoins_on_same_slots_and_backlog(backlog: int, joined: bool) -> None:
    late = decision_at(2, 2, action=Action.APPLY, target=deployment(1, 4))
    made = plant(decision_at(1, 2), late, decision_at(3, 4, 2, backlog=backlog))
    made.observe(Cursor())
    made.apply(deployment(1, 2).with_changes(TO_FOUR))
    made.observe(Cursor())
    last = made.observe(Cursor())
    assert made.modelled is not joined
    if joined:
        recorded = made.recorded.signals
        assert recorded is not None and last == replace(recorded, observations=last.observations)
        assert [o.parallelism for o in last.observations] == [2, 2, 4]
        assert made.deployment == deployment(2, 4)


def test_replay_continues_alone_while_the_recording_restarts() -> None:
    late = decision_at(2, 2, action=Action.APPLY, target=deployment(1, 4))
    underway = decision_at(3, 4, version=1, base_version=2)
    made = plant(decision_at(1, 2), late, underway)
    made.observe(Cursor())
    made.apply(deployment(1, 2).with_changes(TO_FOUR))
    made.observe(Cursor())
    made.observe(Cursor())
    assert made.modelled


def test_evaluation_when_a_restart_is_too_recent_then_is_settling() -> None:
    soon = decision_at(1, 2)
    after = replace(decision_at(2, 2), time=soon.time + timedelta(seconds=5))
    assert after.signals is not None
    early = replace(after.signals, until=soon.time + timedelta(seconds=5), since=soon.time)
    made = plant(soon, replace(after, signals=early), decision_at(3, 2))
    made.observe(Cursor())
    made.apply(deployment(1, 2).with_changes(TO_FOUR))
    assert made.observe(Cursor()).settling
    assert not made.observe(Cursor()).settling


def test_span_after_a_pause_of_the_loop_is_the_evaluations_own_period() -> None:
    made = plant(decision_at(1, 2), decision_at(2, 2), decision_at(600, 2))
    spans = []
    for _ in range(3):
        made.observe(Cursor())
        spans.append(made.span_s)
    assert spans == [60.0, 60.0, 60.0]


def test_evaluation_of_sized_operators_cannot_be_modelled() -> None:
    owned = replace(deployment(1, 2).apps["a"], parallelism={"x": 2})
    base = replace(deployment(1, 2), apps={"a": owned})
    made = plant(decision_at(1, 2), decision_at(2, 2), deployments=[base])
    made.observe(Cursor())
    made.apply(base.with_changes((Change("a", "parallelism", 2, 3, "x"),)))
    with pytest.raises(MillraceError, match="use the simulator"):
        made.observe(Cursor())

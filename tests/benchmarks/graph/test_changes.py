"""Changes of slots, and whether the sizes that they led to were enough."""

from __future__ import annotations

from datetime import UTC, datetime

from benchmarks.graph.changes import Version, bad, resized
from millrace.model.decision import Action, Decision
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.signals import AppSignals, Capacity, Signals

NONE = None, None, None, None
"""Rates and ratios that are not measured."""


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def deployment(version: int, **slots: int) -> Deployment:
    apps = {name: AppDeployment(f"{name}.py", (), n, 1024, 8) for name, n in slots.items()}
    return Deployment("p", version, True, apps)


def app(name: str, arrival: float, ability: float, settling: bool = False) -> AppSignals:
    capacity = Capacity(2, 0.0, ability, 0.0, 9)
    return AppSignals(name, 2, 2, False, arrival, *NONE[:3], 9, 9, *NONE[:3], capacity, settling=settling)


def evaluation(until: float, *apps: AppSignals) -> Decision:
    signals = Signals("p", at(until - 5), at(until), 1, 1, apps)
    return Decision(f"d{until}", "p", at(until), Action.HOLD, "enough", "", signals)


def test_only_versions_with_other_slots_are_changes() -> None:
    stored = [
        (0.0, deployment(1, a=2, b=2)),
        (5.0, deployment(2, a=2, b=2)),
        (9.0, deployment(3, a=4, b=8)),
        (20.0, deployment(4, a=2, b=8)),
    ]
    assert resized(stored) == [Version(9.0, {"a": 4, "b": 8}), Version(20.0, {"a": 2, "b": 8})]


def test_size_is_too_small_if_its_last_evaluation_says_so() -> None:
    version = [Version(10.0, {"a": 4, "b": 4})]
    catching_up = evaluation(20, app("a", 50, 80), app("b", 200, 80))
    assert bad(version, [catching_up, evaluation(30, app("a", 50, 80), app("b", 50, 80))], []) == 0
    assert bad(version, [catching_up, evaluation(30, app("a", 50, 80), app("b", 90, 80))], []) == 1


def test_fixed_size_is_never_too_small_as_nothing_chose_it() -> None:
    assert bad([], [evaluation(20, app("a", 90, 80))], [15.0]) == 0


def test_size_is_judged_at_the_rate_that_it_was_chosen_for() -> None:
    version, enough, later = [Version(10.0, {"a": 4, "b": 4})], app("b", 50, 80), app("a", 200, 80)
    evaluations = [evaluation(20, app("a", 50, 80), enough), evaluation(50, later, enough)]
    assert (bad(version, evaluations, [40.0]), bad(version, evaluations, [])) == (0, 1)


def test_size_that_another_replaced_or_that_never_settled_is_judged_by_its_own_time() -> None:
    versions = [Version(10.0, {"a": 4}), Version(25.0, {"a": 8})]
    short, settling = evaluation(20, app("a", 90, 80), app("b", 1, 80)), app("a", 90, 80, settling=True)
    assert bad(versions, [short, evaluation(40, app("a", 90, 160), app("b", 1, 80))], []) == 1
    assert bad(versions[:1], [evaluation(20, settling, app("b", 1, 80))], []) == 0

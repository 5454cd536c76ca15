from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from millrace.control.evaluation import GateResult
from millrace.control.guard_context import GuardContext
from millrace.control.guards import CHAIN, first_veto, judge, quality_outcome
from millrace.model.decision import GuardOutcome, Outcome, Reconfiguration
from millrace.model.deployment import AppDeployment, Deployment, ExecutorSize
from millrace.model.objective import Bounds
from millrace.model.spec_sections import GuardsSpec
from millrace.optimizers.conformance.builders import app_signals, signals

NOW = datetime(2013, 1, 1, 12, tzinfo=UTC)
ORDER = [
    *("bounds", "cool-down", "changes per hour", "quiet hours"),
    *("running tasks", "garbage collection", "roll-back", "quota"),
]


def deployment(slots: int, name: str = "delays", running: bool = True) -> Deployment:
    return Deployment(name, 3, running, {name: AppDeployment("x.py", (), slots, 1024, 8)})


def change(ended_ago_s: float, decision: str | None = "d1", started_ago_s: float | None = None) -> Reconfiguration:
    ended = NOW - timedelta(seconds=ended_ago_s)
    started = NOW - timedelta(seconds=started_ago_s) if started_ago_s is not None else ended - timedelta(seconds=5)
    return Reconfiguration("delays", "delays", decision, "T2", 1, 2, 2, started, ended, 5.0, Outcome.READY)


def trace(before: int = 2, after: int = 4, **changes: Any) -> tuple[GuardOutcome, ...]:
    plain: dict[str, Any] = {
        "now": NOW,
        "current": deployment(before),
        "bounds": {"delays": Bounds(1, 8)},
        "limits": GuardsSpec(),
        "max_per_hour": 4,
    }
    return judge(GuardContext(**{**plain, **changes}), deployment(after))


def vetoes(before: int = 2, after: int = 4, **changes: Any) -> list[str]:
    return [outcome.guard for outcome in trace(before, after, **changes) if not outcome.passed]


def test_chain_keeps_the_order_of_the_design() -> None:
    assert [o.guard for o in trace()] == ORDER == [name for name, _ in CHAIN]
    assert vetoes() == []


def test_cool_down_when_the_clock_was_set_back_then_does_not_wait_for_it() -> None:
    before = change(-3500)
    assert vetoes(history=[before]) == []
    assert vetoes(history=[change(10), before]) == ["cool-down"]
    open_before = replace(before, ended=None, outcome=Outcome.OPEN)
    assert vetoes(history=[open_before]) == []
    assert vetoes(history=[change(-1800, f"d{n}") for n in range(4)]) == []


def test_slots_that_a_person_rolled_back_are_not_set_again() -> None:
    told = trace(2, 4, undone=deployment(4))
    assert [(o.guard, o.reason) for o in told if not o.passed] == [
        ("roll-back", "delays: a person rolled 4 slots back to 2 less than an hour ago")
    ]
    assert vetoes(2, 3, undone=deployment(4)) == vetoes(2, 4, undone=deployment(2)) == []
    assert vetoes(2, 4, undone=deployment(4), forced=True) == []


def test_state_partitions_that_a_person_rolled_back_are_not_set_again() -> None:
    def split(partitions: int) -> Deployment:
        app = replace(deployment(2).apps["delays"], max_parallelism=partitions)
        return replace(deployment(2), apps={"delays": app})

    context = GuardContext(NOW, split(4), {"delays": Bounds(1, 8)}, GuardsSpec(), 4, undone=split(7))
    assert [outcome.guard for outcome in judge(context, split(7)) if not outcome.passed] == ["roll-back"]
    assert all(outcome.passed for outcome in judge(context, split(5)))


def test_placement_that_a_person_rolled_back_is_held_until_the_slots_change() -> None:
    def placed(slots: int, *workers: int) -> Deployment:
        app = replace(deployment(slots).apps["delays"], placement={"q/0": workers} if workers else {})
        return replace(deployment(slots), apps={"delays": app})

    def judged(target: Deployment) -> list[str]:
        context = GuardContext(NOW, placed(2), {"delays": Bounds(1, 8)}, GuardsSpec(), 4, undone=placed(2, 0, 1))
        return [outcome.guard for outcome in judge(context, target) if not outcome.passed]

    assert judged(placed(2, 1, 0)) == ["roll-back"]
    assert judged(placed(4, 0, 1)) == judged(placed(2)) == []


def test_several_vetoes_are_decided_by_the_first_in_the_order() -> None:
    bad = trace(after=9, history=[change(1)])
    veto = first_veto(bad)
    assert veto is not None and (veto.guard, veto.reason) == ("bounds", "delays: 9 slots; allowed: 1 to 8")
    assert [outcome.guard for outcome in bad if not outcome.passed] == ["bounds", "cool-down"]


@pytest.mark.parametrize(
    ("sound", "forced", "passed"), [(True, False, True), (False, False, False), (False, True, True)]
)
def test_quality_when_the_gate_has_judged_then_heads_the_trace(sound: bool, forced: bool, passed: bool) -> None:
    outcome = quality_outcome(GateResult(sound, sentence="rows_in is -5"), forced=forced)
    assert (outcome.guard, outcome.passed) == ("data quality", passed)
    assert (outcome.reason == "rows_in is -5") is (not passed)


@given(slots=st.integers(-5, 5000), low=st.integers(1, 20), span=st.integers(0, 20), forced=st.booleans())
def test_bounds_when_slots_are_outside_then_veto_even_a_forced_change(
    slots: int, low: int, span: int, forced: bool
) -> None:
    found = vetoes(before=1, after=slots, bounds={"delays": Bounds(low, low + span)}, forced=forced)
    assert ("bounds" in found) == (slots != 1 and not low <= slots <= low + span)


def test_bounds_let_apps_above_their_budget_shrink_but_not_grow() -> None:
    assert vetoes(2, 4, budget=4) == vetoes(6, 5, budget=4) == vetoes(6, 6, budget=4) == []
    told = trace(2, 5, budget=4, forced=True)
    assert [o.reason for o in told if not o.passed] == ["5 slots of all apps; allowed: 4 (budget.slots)"]
    assert vetoes(6, 7, budget=4) == ["bounds"]


@given(ago_s=st.floats(0, 200), cool_down_s=st.floats(0, 100))
def test_cool_down_when_the_last_change_ended_recently_then_vetoes(ago_s: float, cool_down_s: float) -> None:
    last = change(ago_s)
    elapsed_s = (NOW - last.ended).total_seconds()  # type: ignore[operator]
    found = vetoes(history=[last], limits=GuardsSpec(cool_down_s=cool_down_s))
    assert ("cool-down" in found) == (elapsed_s < cool_down_s)


def test_executors_skip_the_cool_down_but_count_and_back_off() -> None:
    def elastic(slots: int) -> Deployment:
        app = AppDeployment("x.py", (), slots, 1024, 8, executor=ExecutorSize(1, 512))
        return Deployment("delays", 3, True, {"delays": app})

    def found(**changes: Any) -> list[str]:
        context = GuardContext(NOW, elastic(2), {"delays": Bounds(1, 8)}, GuardsSpec(cool_down_s=60), 1, **changes)
        return [outcome.guard for outcome in judge(context, elastic(4)) if not outcome.passed]

    assert found(history=[change(1, decision=None)]) == []
    assert found(history=[change(1)]) == ["changes per hour"]
    under_way = replace(change(1, decision=None), ended=None, outcome=Outcome.OPEN)
    assert found(history=[under_way]) == ["cool-down"]
    failed = replace(change(1, decision=None), outcome=Outcome.FAILED, error="not all executors came")
    assert found(history=[failed], failures=[(failed, elastic(4))]) == ["cool-down"]


def test_finished_pipeline_needs_no_cool_down() -> None:
    finished = replace(deployment(2, running=False), finished=NOW)
    assert vetoes(history=[change(1)], limits=GuardsSpec(cool_down_s=60)) == ["cool-down"]
    assert vetoes(history=[change(1)], limits=GuardsSpec(cool_down_s=60), current=finished) == []


def apps(slots: int, other: int) -> Deployment:
    of = {"delays": deployment(slots).apps["delays"], "other": deployment(other).apps["delays"]}
    return replace(deployment(slots), apps=of)


def test_app_backs_off_from_what_failed_whatever_the_others_have_changed_since() -> None:
    failed = replace(change(60), outcome=Outcome.ROLLED_BACK, error="no memory")
    context = GuardContext(NOW, apps(2, 3), {}, GuardsSpec(), 9, history=[failed], failures=[(failed, apps(4, 2))])

    def vetoed(target: Deployment) -> bool:
        return any("these settings failed 60 s ago" in outcome.reason for outcome in judge(context, target))

    assert vetoed(apps(4, 3)) and vetoed(apps(4, 5)) and not vetoed(apps(2, 5)) and not vetoed(apps(3, 3))


def test_each_app_has_its_own_cool_down() -> None:
    plain = GuardContext(
        NOW, apps(2, 2), {}, GuardsSpec(), 9, history=[replace(change(1), ended=None, outcome=Outcome.OPEN)]
    )

    def vetoed(target: Deployment) -> bool:
        return any(o.guard == "cool-down" and not o.passed for o in judge(plain, target))

    assert vetoed(apps(4, 2)) and not vetoed(apps(2, 4)) and vetoed(apps(4, 4))
    assert vetoed(replace(apps(2, 2), ingest={"a": 1})), "moving a stream concerns all apps"


def test_cool_down_vetoes_while_a_reconfiguration_is_open() -> None:
    going_on = replace(change(0, started_ago_s=50), ended=None, outcome=Outcome.OPEN)
    assert vetoes(history=[going_on], open_at_most_s=180) == ["cool-down"]
    assert vetoes(history=[going_on], open_at_most_s=40) == []


@given(st.lists(st.tuples(st.integers(0, 7300), st.sampled_from(["a", "b", "c", None])), max_size=12))
def test_changes_per_hour_counts_each_decision_once(made: list[tuple[int, str]]) -> None:
    history = [change(0, decision=d, started_ago_s=ago) for ago, d in made]
    counted = len({d for ago, d in made if d and ago < 3600})
    found = vetoes(history=history, max_per_hour=2, limits=GuardsSpec(cool_down_s=0))
    assert ("changes per hour" in found) == (counted >= 2)


@given(st.integers(0, 1439), st.integers(0, 1439), st.integers(0, 1439))
def test_quiet_hours_veto_inside_the_span_and_across_midnight(start: int, end: int, minute: int) -> None:
    assume(start != end)  # the spec refuses an empty span
    span = f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"
    now = NOW.replace(hour=minute // 60, minute=minute % 60)
    inside = minute in ({*range(start, end)} if start <= end else {*range(start, 1440), *range(end)})
    assert ("quiet hours" in vetoes(now=now, limits=GuardsSpec(quiet_hours=(span,)))) == inside


def test_quiet_hours_use_utc_whatever_the_time_zone() -> None:
    from zoneinfo import ZoneInfo

    local = datetime(2013, 1, 1, 18, 30, tzinfo=ZoneInfo("America/New_York"))  # 23:30 UTC
    assert vetoes(now=local, limits=GuardsSpec(quiet_hours=("23:00-06:00",))) == ["quiet hours"]


@given(before=st.integers(1, 8), after=st.integers(1, 8), elsewhere=st.integers(0, 20), allowed=st.integers(1, 20))
def test_quota_vetoes_growth_only(before: int, after: int, elsewhere: int, allowed: int) -> None:
    others = [deployment(elsewhere, "other"), deployment(50, "stopped", running=False), deployment(before)]
    found = vetoes(before, after, others=others, limits=GuardsSpec(max_total_slots=allowed))
    assert ("quota" in found) == (after > before and after + elsewhere > allowed)


def test_forced_change_is_judged_only_by_bounds_running_tasks_and_quota() -> None:
    limits = GuardsSpec(quiet_hours=("00:00-23:59",), max_total_slots=3)
    changes: dict[str, Any] = {"history": [change(1)], "max_per_hour": 0, "limits": limits}
    assert vetoes(forced=True, **changes) == ["quota"]
    assert len(trace(forced=True, **changes)) == len(ORDER)
    assert set(vetoes(**changes)) == {"cool-down", "changes per hour", "quiet hours", "quota"}


@pytest.mark.parametrize(
    ("after", "ratio", "vetoed"), [(1, 0.3, True), (1, 0.25, False), (1, None, False), (4, 0.9, False)]
)
def test_slots_stay_while_executors_mostly_collect_garbage(after: int, ratio: float | None, vetoed: bool) -> None:
    measured = signals(replace(app_signals(2, 100.0, None, gc_ratio=ratio), app="delays"))
    on_executors = deployment(2)
    apps = {"delays": replace(on_executors.apps["delays"], executor=ExecutorSize(1, 1024))}
    found = vetoes(2, after, current=replace(on_executors, apps=apps), signals=measured)
    assert ("garbage collection" in found) == vetoed

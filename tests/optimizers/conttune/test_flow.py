"""flow as an Optimizer of an app whose batches take turns: one evaluation at a time."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from statistics import median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.arrival import ArrivalBasis
from millrace.model.codec import to_json
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import ExecutorSize
from millrace.model.objective import Bounds, Objective
from millrace.model.signals import AppSignals, Signals
from millrace.optimizers.conformance.builders import (
    APP,
    NOON,
    app_signals,
    capacity,
    deployment,
    observed,
    signals,
    target,
)
from millrace.optimizers.conformance.situations import histories
from millrace.optimizers.conttune.messages import MESSAGES, Reason
from millrace.optimizers.registry import create
from tests.examples import examples
from tests.optimizers.conttune.flow_cases import POWER, ask, measured, outcome

# ---- up


def test_cold_start_leads_in_one_step_to_a_level_with_room() -> None:
    proposal = ask(app_signals(1, 400.0, measured(1)), bounds=Bounds(1, 32))
    wanted, reason = outcome(proposal, 1)
    # 500 of 400 / 0.8 = 500 rows/s take 6 or 7 slots, and one level says little about them
    assert 7 < wanted <= 12 and reason == "under_provisioned"
    assert proposal.training["parallelism"] == (1.0,)
    assert proposal.curve["parallelism"] == tuple(float(p) for p in range(1, 33))


def test_cold_start_is_limited_to_the_reach_of_one_measured_level() -> None:
    wide = Bounds(1, 200)
    careful = {"risk": 0.001, "exponent_sd": 0.5}
    assert target(ask(app_signals(1, 400.0, measured(1)), bounds=wide, reach=1.5, **careful), 1) == 8  # 1.5 x 5
    assert target(ask(app_signals(1, 400.0, measured(1)), bounds=wide, reach=20, **careful), 1) > 40


def test_up_beyond_all_levels_goes_to_the_maximum_and_stays() -> None:
    assert outcome(ask(app_signals(1, 9000.0, measured(1))), 1) == (8, "under_provisioned")
    assert outcome(ask(app_signals(8, 9000.0, measured(8)), POWER), 8) == (8, "at_maximum")


def test_up_when_only_the_planned_utilisation_is_exceeded_then_says_so() -> None:
    proposal = ask(app_signals(4, 0.9 * POWER[4], measured(4)), POWER)
    assert outcome(proposal, 4) == (5, "utilisation_above_target")
    assert proposal.predicted["utilisation_ratio"] <= 0.8


def test_up_when_the_plan_is_missed_by_less_than_the_tolerance_then_stays() -> None:
    assert outcome(ask(app_signals(4, 0.83 * POWER[4], measured(4)), POWER), 4) == (4, "well_provisioned")
    assert target(ask(app_signals(4, 0.83 * POWER[4], measured(4)), POWER, tolerance=0), 4) == 5


def test_up_when_slightly_more_arrives_than_can_be_sustained_then_stays_and_says_why() -> None:
    app = app_signals(4, 0.41 * POWER[4], measured(4, fixed_s=6.0))
    proposal = ask(app, POWER, objective=Objective(max_lag_s=20.0))
    assert outcome(proposal, 4) == (4, "well_provisioned")
    assert "(102 % used). That is within the error of the measurement, so nothing changes." in proposal.sentence


def test_up_when_the_latency_goal_needs_it_then_says_so() -> None:
    app = app_signals(4, 0.5 * POWER[4], measured(4, fixed_s=6.0))
    proposal = ask(app, POWER, objective=Objective(max_lag_s=20.0))
    wanted, reason = outcome(proposal, 4)
    assert (wanted > 4, reason) == (True, "latency_goal")
    assert proposal.predicted["longest_wait_s"] <= 20.0
    assert " 4 slots can sustain only 139 rows/s without rows waiting longer than 20 s. " in proposal.sentence


@pytest.mark.parametrize("share", [0.7, 0.79, 0.5])
def test_latency_goal_out_of_reach_is_reported_without_a_ramp(share: float) -> None:
    app = app_signals(4, share * POWER[4], measured(4, fixed_s=12.0))
    wanted, reason = outcome(ask(app, POWER, objective=Objective(max_lag_s=10.0)), 4)
    assert wanted <= 4
    assert wanted < 4 or reason == "latency_unattainable"


def test_up_when_full_batches_sustain_too_little_then_says_so() -> None:
    app = app_signals(4, 0.6 * POWER[4], measured(4, fixed_s=2.0), batch_rows_limit=1000)
    proposal = ask(app, POWER)
    wanted, reason = outcome(proposal, 4)
    assert (wanted > 4, reason) == (True, "batch_limit")
    assert "at most 1,000 rows per batch" in proposal.sentence
    at_most = ask(app, POWER, bounds=Bounds(1, 4))
    assert outcome(at_most, 4) == (4, "batch_limit_at_maximum")
    helps = r"slots\.max: \d \(estimated\)\."
    assert re.search(
        rf" No allowed size keeps up: even 4 slots can sustain only 205 rows/s\. This would help: {helps}$",
        at_most.sentence,
    )
    assert target(ask(replace(app, batch_rows_limit=None), POWER), 4) <= 4


def test_backlog_that_does_not_drain_in_time_is_a_reason_to_scale_up() -> None:
    app = app_signals(4, 0.7 * POWER[4], measured(4), backlog_rows=15_000)
    assert outcome(ask(app, POWER), 4) == (6, "backlog_to_drain")
    assert target(ask(app, POWER, catch_up=False), 4) == 4


def test_backlog_of_our_own_restart_causes_no_step_either_way() -> None:
    app = app_signals(4, 0.7 * POWER[4], measured(4), backlog_rows=15_000, restart_lag_rows=15_000)
    assert outcome(ask(app, POWER), 4) == (4, "draining")
    quiet = app_signals(4, 20.0, measured(4), backlog_rows=15_000, restart_lag_rows=15_000)
    assert outcome(ask(quiet, POWER), 4) == (4, "draining")


def test_unknown_backlog_matters_only_with_catch_up() -> None:
    app = app_signals(2, 400.0, measured(2), backlog_rows=None)
    assert outcome(ask(app, POWER), 2) == (2, "backlog_unknown")
    assert target(ask(app, POWER, catch_up=False), 2) > 2


@pytest.mark.parametrize(("flag", "reason"), [(True, "source_splits"), (False, "too_few_tasks")])
def test_up_never_happens_if_fewer_tasks_than_slots_ran(flag: bool, reason: str) -> None:
    app = app_signals(4, 350.0, measured(2), parallelism=2, source_splits=flag)
    assert outcome(ask(app, POWER), 4) == (4, reason)
    barely = replace(app, arrival_rows_per_s=180.0)  # 3 slots would be enough, if there were work for 3
    assert outcome(ask(barely, POWER), 4) == (4, reason)
    ignored = ask(replace(app, arrival_rows_per_s=500.0), POWER, source_splits=False)
    assert target(ignored, 4) > 4


def test_down_is_allowed_if_fewer_tasks_than_slots_ran() -> None:
    app = app_signals(6, 20.0, measured(2), parallelism=2, source_splits=True)
    assert outcome(ask(app, POWER), 6) == (1, "over_provisioned")


FLAT = {1: 100.0, 2: (190.0, 191.0, 190.0), 4: (195.0, 192.0, 193.0)}


def test_up_that_brought_nothing_stops_and_returns_the_excess() -> None:
    app = app_signals(4, 400.0, capacity(4, 193.0))
    proposal = ask(app, FLAT)
    assert outcome(proposal, 4) == (2, "ineffective_scaling")
    assert "Beyond 2 slots" in proposal.sentence
    assert outcome(ask(app_signals(2, 400.0, capacity(2, 190.0)), FLAT), 2) == (2, "ineffective_scaling")
    assert target(ask(app, FLAT, ineffective_thr=0), 4) > 4
    assert outcome(ask(app_signals(1, 400.0, capacity(1, 100.0)), FLAT), 1) == (2, "under_provisioned")


def test_ceiling_below_the_bounds_keeps_slots_within_them() -> None:
    app = app_signals(4, 400.0, capacity(4, 193.0))
    assert outcome(ask(app, FLAT, bounds=Bounds(3, 8)), 4) == (3, "ineffective_scaling")
    assert outcome(ask(app, FLAT, bounds=Bounds(4, 8)), 4) == (4, "ineffective_scaling")


# ---- down


def test_down_when_the_night_is_quiet_then_goes_to_the_minimum() -> None:
    for rate in (0.0, 0.2):
        assert outcome(ask(app_signals(7, rate, measured(7)), POWER), 7) == (1, "over_provisioned")
    assert target(ask(app_signals(7, 0.0, measured(7)), POWER, bounds=Bounds(2, 8)), 7) == 2


def idle(**changes: Any) -> Any:
    values = {"parallelism": None, "batches": 0, "healthy_batches": 0, "slot_busy_ratio": 0.0}
    return app_signals(7, 0.0, None, **(values | changes))


def test_down_with_no_arrivals_uses_earlier_figures() -> None:
    assert outcome(ask(idle(), {1: 100.0, 6: 500.0}), 7) == (1, "over_provisioned")


def test_down_from_an_unmeasured_level_stops_at_measured_ones() -> None:
    assert target(ask(idle(), {4: 350.0, 6: 500.0}), 7) == 4
    assert outcome(ask(idle(), {7: 570.0}), 7) == (7, "level_not_proven")


def test_down_that_frees_less_than_the_slack_stays() -> None:
    app = app_signals(5, 260.0, measured(5))
    assert outcome(ask(app, POWER), 5) == (4, "over_provisioned")
    assert outcome(ask(app, POWER, slack=0.3), 5) == (5, "slack_too_small")


def test_down_at_the_rate_of_the_last_step_must_free_more() -> None:
    app = app_signals(5, 260.0, measured(5))
    stepped = {"apps": {APP: {"rate": 260.0, "stepped": 262.0}}}
    assert outcome(ask(app, POWER, memory=stepped), 5)[0] == 5
    other = {"apps": {APP: {"rate": 260.0, "stepped": 300.0}}}
    assert target(ask(app, POWER, memory=other), 5) == 4
    assert target(ask(app, POWER, memory=stepped, reshave=0.05), 5) == 4


def test_step_that_nobody_carries_out_is_proposed_again_as_it_was() -> None:
    tuner = create("flow", {})
    for app, levels in ((app_signals(2, 300.0, measured(2)), POWER), (app_signals(5, 260.0, measured(5)), POWER)):
        memory: Memory = {}
        proposals = []
        for minute in range(8):
            now = NOON + timedelta(minutes=minute)
            seen = signals(app, observed(levels), until=now)
            proposal, memory = tuner.propose(seen, deployment(app.slots), json.loads(json.dumps(memory)))
            proposals.append(outcome(proposal, app.slots))
        assert len(set(proposals)) == 1 and proposals[0][0] != app.slots, "a step that was not made cannot fail"


def test_step_that_was_carried_out_and_is_too_small_is_followed_by_a_larger_one() -> None:
    tuner, rate = create("flow", {}), 300.0
    first, memory = tuner.propose(signals(app_signals(2, rate, measured(2)), observed(POWER)), deployment(2), {})
    larger = target(first, 2)
    seen = signals(app_signals(larger, rate, capacity(larger, POWER[2])))
    again, memory = tuner.propose(seen, deployment(larger), memory)
    assert again.changes and memory["apps"][APP]["operators"][APP]["failures"] == 1


def test_down_when_lower_levels_might_not_keep_up_then_stays() -> None:
    rate = 0.8 * POWER[4] * 0.995
    assert outcome(ask(app_signals(5, rate, measured(5)), {5: POWER[5]}), 5) == (5, "no_safe_lower_level")


def test_down_when_at_the_fewest_allowed_then_says_so() -> None:
    assert outcome(ask(app_signals(1, 0.0, measured(1)), POWER), 1) == (1, "at_minimum")


@pytest.mark.parametrize("slots", range(2, 9))
def test_level_left_downward_is_not_returned_to_at_the_same_load(slots: int) -> None:
    for rate in range(0, 500, 29):
        lower = target(ask(app_signals(slots, rate, measured(slots)), POWER), slots)
        if lower < slots:
            assert target(ask(app_signals(lower, rate * 1.04, measured(lower)), POWER), lower) <= lower


# ---- holds


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"arrival_rows_per_s": None}, "rate_unknown"),
        ({"backlog_rows": None}, "backlog_unknown"),
        ({"arrival_rows_per_s": -3.0}, "bad_signals"),
        ({"capacity": capacity(4, float("nan"))}, "bad_signals"),
    ],
)
def test_hold_when_figures_are_missing_or_impossible_then_says_which(changes: dict[str, Any], reason: str) -> None:
    proposal = ask(replace(app_signals(4, 1.0, measured(4)), **changes), POWER)
    assert (proposal.changes, proposal.reason_code) == ((), reason)


def test_hold_says_that_nothing_is_measured_even_if_backlog_grows() -> None:
    app = app_signals(1, 500.0, None, backlog_rows=9000, backpressured_ratio=1.0, slot_busy_ratio=1.0)
    proposal = ask(app)
    assert outcome(proposal, 1) == (1, "capacity_unknown")
    assert proposal.curve == {} and proposal.predicted == {}


def test_unknown_present_capacity_still_scales_up_with_earlier_levels() -> None:
    assert target(ask(app_signals(2, 400.0, None), {1: 100.0}), 2) > 5


def test_slots_when_outside_new_bounds_then_move_inside() -> None:
    assert outcome(ask(app_signals(8, 500.0, measured(8)), POWER, bounds=Bounds(1, 4)), 8) == (4, "out_of_bounds")
    assert outcome(ask(app_signals(1, 5.0, measured(1)), POWER, bounds=Bounds(3, 4)), 1) == (3, "out_of_bounds")


def test_sentence_names_the_key_that_sets_the_bounds() -> None:
    work = Bounds(3, 4, 1, "slots.schedule until 2013-07-01 20:00 UTC")
    found = ask(app_signals(1, 5.0, measured(1)), POWER, bounds=work)
    assert "allowed are 3 (slots.schedule until 2013-07-01 20:00 UTC) to 4 (slots.max)" in found.sentence


def test_slots_measured_at_another_version_count_as_settling() -> None:
    seen = signals(app_signals(2, 900.0, measured(2)))
    assert create("flow", {}).propose(seen, deployment(4), {})[0].reason_code == "settling"


# ---- a cluster without room for all executors


def on_full_cluster(
    arrives: float, memory: Memory | None = None, running: int = 6, bounds: Bounds | None = None
) -> tuple[Proposal, Memory]:
    """flow's answer if 8 slots are requested, and fewer run."""
    current = deployment(8)
    seen = signals(app_signals(running, arrives, measured(running)), observed(POWER), bounds)
    current = replace(current, apps={APP: replace(current.apps[APP], executor=ExecutorSize(1, 1024))})
    return create("flow", {}).propose(seen, current, memory or {})


def test_slots_without_room_are_given_up_when_the_load_falls() -> None:
    proposal, _ = on_full_cluster(50.0)
    (change,) = proposal.changes
    assert change.before == 8 and change.value < 6
    assert "6 slots can sustain" in proposal.sentence


def test_no_more_slots_are_requested_while_a_cluster_is_full() -> None:
    proposal, memory = on_full_cluster(2 * POWER[8])
    assert (proposal.changes, proposal.reason_code) == ((), "no_room")
    assert memory["apps"][APP] == {}, "a step that was not made cannot fail"


def test_fewer_slots_than_the_minimum_on_a_full_cluster_take_nothing_back() -> None:
    proposal, _ = on_full_cluster(2 * POWER[8], running=2, bounds=Bounds(4, 8))
    assert (proposal.changes, proposal.reason_code) == ((), "no_room")


def test_requested_slots_stay_if_the_running_ones_are_enough() -> None:
    proposal, _ = on_full_cluster(0.7 * POWER[6])
    assert proposal.changes == ()


# ---- tasks that take turns


def test_level_with_as_many_turns_as_a_lower_one_is_skipped() -> None:
    app, known = app_signals(4, 0.9 * POWER[4], measured(4), tasks=8), {p: POWER[p] for p in (2, 4, 8)}
    assert target(ask(app, known), 4) == 8  # 5 to 7 slots need two turns for 8 tasks, as 4 do
    assert target(ask(replace(app, tasks=None), known), 4) == 5


def test_slots_that_bring_nothing_are_given_back() -> None:
    app = app_signals(7, 0.7 * POWER[4], capacity(7, POWER[4]), tasks=8)
    assert outcome(ask(app, {2: POWER[2]}), 7) == (4, "over_provisioned")


def test_step_down_leads_to_an_allowed_level_that_is_worth_less_than_its_slots() -> None:
    """Six tasks take two turns on 4 slots, as on 3, which executors of 2 slots cannot have."""
    app = app_signals(6, 0.6 * POWER[3], measured(6), tasks=6)
    proposal = ask(app, {2: POWER[2], 3: POWER[3]}, bounds=Bounds(2, 6, 2))
    assert outcome(proposal, 6) == (4, "over_provisioned")


@pytest.mark.parametrize("changes", [{}, {"arrival_basis": ArrivalBasis.AT_LEAST}])
def test_stage_whose_tasks_all_run_at_once_gets_no_advice_to_raise_the_maximum(changes: dict[str, Any]) -> None:
    app = app_signals(4, 2 * POWER[4], measured(4), tasks=4, **changes)
    proposal = ask(app, POWER, bounds=Bounds(1, 8))
    assert outcome(proposal, 4) == (4, "all_tasks_run")
    told = "but 4 slots already run all 4 tasks of the longest stage at once. More slots cannot help."
    assert told in proposal.sentence and "slots.max" not in proposal.sentence
    assert outcome(ask(app, POWER, bounds=Bounds(1, 4)), 4)[1] in ("at_maximum", "batches_full_at_maximum")


def test_maximum_below_the_next_useful_level_is_reported() -> None:
    app = app_signals(4, 2 * POWER[4], measured(4), tasks=8)
    assert outcome(ask(app, POWER, bounds=Bounds(1, 7)), 4) == (4, "at_maximum")


def test_levels_of_equal_worth_do_not_show_that_more_slots_bring_nothing() -> None:
    """6 slots do the same as 4; 8 were never tried."""
    app = app_signals(6, 0.95 * POWER[4], capacity(6, POWER[4]), tasks=8)
    assert target(ask(app, {2: POWER[2], 4: [POWER[4]] * 3}), 6) == 8


# ---- before it has settled


def early(app: AppSignals, slots: int, *, live: bool = True, memory: Memory | None = None) -> tuple[Proposal, Memory]:
    """flow's answer while ``slots`` are new, and ``app`` was measured at others."""
    current, seen = deployment(slots), signals(app, observed(POWER))
    if live:
        size = replace(current.apps[APP], executor=ExecutorSize(1, 1024))
        current = replace(current, apps={APP: size})
    return create("flow", {}).propose(replace(seen, settling=True), current, memory or {})


def test_more_slots_are_added_before_it_has_settled_if_they_cannot_keep_up() -> None:
    proposal, memory = early(app_signals(4, 600.0, measured(4)), 4)
    wanted, reason = outcome(proposal, 4)
    assert wanted > 6 and reason == "under_provisioned"
    assert proposal.sentence.endswith("The throughput of 4 slots is an estimate: it has not settled yet.")
    assert memory["apps"][APP]["stepped_up"]


def test_step_down_that_proves_too_deep_is_reversed_before_it_is_carried_out() -> None:
    proposal, _ = early(app_signals(6, 600.0, measured(6)), 2)
    assert target(proposal, 2) > 6


@pytest.mark.parametrize(
    ("arrives", "changes", "live"),
    [
        (10.0, {}, True),  # far too many slots
        (200.0, {"backlog_rows": 100_000}, True),  # a backlog is not the arrival rate
        (200.0, {"capacity": capacity(4, 10.0)}, True),  # a cold batch shows nothing about the level
        (600.0, {"arrival_basis": ArrivalBasis.AT_LEAST}, True),  # not known to arrive
        (None, {}, True),
        (600.0, {}, False),  # a restart would have a cost
    ],
)
def test_slots_otherwise_wait_until_it_has_settled(arrives: float | None, changes: dict[str, Any], live: bool) -> None:
    proposal, _ = early(replace(app_signals(4, arrives, measured(4)), **changes), 4, live=live)
    assert (proposal.changes, proposal.reason_code) == ((), "settling")


def test_rate_is_known_before_it_has_settled_and_the_step_stays_remembered() -> None:
    _, stepped = early(app_signals(4, 600.0, measured(4)), 4)
    calmer = app_signals(8, 500.0, measured(8), arrival_recent_rows_per_s=500.0)
    _, memory = early(calmer, 8, memory=stepped)
    of_app = memory["apps"][APP]
    assert (of_app["rate"], of_app["stepped"], of_app["stepped_up"]) == (500.0, 600.0, True)


# ---- whole windows


def windows(*rates: tuple[float, float | None], every_s: float = 10, **options: Any) -> list[tuple[int, str]]:
    """flow's answers at 8 slots, one after the other, for periods of 10 s with a mean and a newest rate."""
    tuner, memory, found = create("flow", {"change_s": 0.0, **options}), {}, []  # type: ignore[var-annotated]
    for number, (rate, newest) in enumerate(rates):
        app = app_signals(8, rate, measured(8), arrival_recent_rows_per_s=newest)
        until = NOON + timedelta(seconds=every_s * number)
        seen = signals(app, observed(POWER), Bounds(1, 16), until=until)
        proposal, memory = tuner.propose(seen, deployment(8), memory)
        found.append(outcome(proposal, 8))
    return found


def test_window_without_a_newest_rate_waits_once_for_a_jump() -> None:
    # it jumps in every evaluation, and still waits for only one evaluation
    jumping = [(rate, None) for rate in (500.0, 300.0, 200.0, 100.0)]
    assert [reason for _, reason in windows(*jumping)] == [
        "well_provisioned",
        "window_half_old",
        "over_provisioned",
        "window_half_old",
    ]
    assert windows(*jumping, whole_windows=False)[1][1] == "over_provisioned"


def test_window_without_a_jump_waits_for_nothing() -> None:
    assert windows((500.0, 500.0), (100.0, 102.0))[1][1] == "over_provisioned"


def jumped(before: float, after: float, share: float) -> tuple[float, float]:
    """Mean and newest rate of a period with the given share after a jump."""
    return before + share * (after - before), before + min(1.0, 3 * share) * (after - before)


@pytest.mark.parametrize(("after", "share"), [(100, 0.2), (100, 1 / 3), (900, 0.15), (900, 0.2), (900, 1 / 3)])
def test_window_with_a_jump_in_its_newest_third_is_waited_for(after: float, share: float) -> None:
    evaluations = [(500.0, 500.0), jumped(500.0, after, share), (after, after)]
    assert [reason for _, reason in windows(*evaluations)][1:] == [
        "window_half_old",
        "over_provisioned" if after < 500 else "under_provisioned",
    ]


@pytest.mark.parametrize("share", [0.45, 0.6, 0.8])
def test_window_with_an_early_jump_is_sized_for_the_present_rate(share: float) -> None:
    steady = windows((500.0, 500.0), (100.0, 100.0))[1]
    assert windows((500.0, 500.0), jumped(500.0, 100.0, share))[1] == steady
    assert windows((500.0, 500.0), jumped(500.0, 100.0, share), whole_windows=False)[1][0] > steady[0]


def test_window_of_an_app_behind_is_sized_at_once_for_a_known_rate() -> None:
    app = app_signals(2, 350.0, measured(2), arrival_recent_rows_per_s=500.0)
    memory = {"apps": {APP: {"rate": 150.0}}}
    steady = ask(app_signals(2, 500.0, measured(2)), POWER, memory=memory, whole_windows=False)
    assert outcome(ask(app, POWER, memory=memory), 2) == outcome(steady, 2)


def test_windows_that_overlap_wait_until_the_third_is_after_the_jump() -> None:
    evaluations = [jumped(500.0, 900.0, share) for share in (0.0, 0.15, 0.3, 0.45)]
    reasons = [reason for _, reason in windows(*evaluations, every_s=1.5)]
    assert reasons == ["well_provisioned", "window_half_old", "window_half_old", "under_provisioned"]


def test_window_in_doubt_waits_for_a_period_at_most() -> None:
    evaluations = [(500.0, 500.0), *[(600.0, 900.0)] * 4]
    reasons = [reason for _, reason in windows(*evaluations, every_s=4)]
    assert reasons == ["well_provisioned", *["window_half_old"] * 3, "utilisation_above_target"]


def test_first_window_is_sized_for_its_newest_rate() -> None:
    assert windows((100.0, 500.0))[0][1] == windows((500.0, 500.0))[0][1] == "well_provisioned"
    assert windows((100.0, None))[0][1] == "over_provisioned"


def test_window_of_an_app_behind_is_not_waited_for_without_news() -> None:
    app, memory = app_signals(2, 400.0, measured(2)), {"apps": {APP: {"rate": 150.0}}}
    assert outcome(ask(app, POWER, memory=memory), 2)[1] == "under_provisioned"
    newer = replace(app, arrival_recent_rows_per_s=800.0)
    assert outcome(ask(newer, POWER, memory=memory), 2) == (2, "window_half_old")


def test_window_of_an_app_that_keeps_up_is_waited_for() -> None:
    wandered = [[rate, 5] for _ in range(5) for rate in (370.0, 310.0, 380.0, 330.0)]
    memory = {"apps": {APP: {"rate": 320.0, "runs": wandered}}}
    app = app_signals(4, 320.0, measured(4), arrival_recent_rows_per_s=270.0)
    assert outcome(ask(app, POWER, memory=memory), 4) == (4, "window_half_old")
    assert target(ask(replace(app, arrival_recent_rows_per_s=320.0), POWER, memory=memory), 4) > 4


def test_window_with_a_trivial_change_waits_for_nothing() -> None:
    assert windows((0.2, None), (3.0, None))[1][1] == "over_provisioned"


def test_settling_window_is_not_an_earlier_rate() -> None:
    tuner = create("flow", {})
    _, memory = tuner.propose(signals(app_signals(8, 500.0, measured(8)), observed(POWER)), deployment(8), {})
    quiet = signals(app_signals(8, 100.0, measured(8)), observed(POWER))
    _, settled = tuner.propose(replace(quiet, settling=True), deployment(8), memory)
    assert settled == memory


# ---- memory


def test_memory_of_an_app_that_was_not_measured_is_kept() -> None:
    kept = {"apps": {"other": {"rate": 3.0, "unsettled": None, "operators": {"other": {"fixed_s": {"1": [2.0]}}}}}}
    _, memory = create("flow", {}).propose(signals(app_signals(2, 9.0, measured(2))), deployment(2), kept)
    assert memory["apps"]["other"] == kept["apps"]["other"]
    assert set(memory["apps"]) == {"other", APP}


def test_failures_of_own_steps_are_counted_until_a_step_is_enough() -> None:
    tuner, slots = create("flow", {}), 1
    memory: Memory = {}

    def evaluation(rate: float, ability: float, second: int) -> int:
        nonlocal memory, slots
        seen = signals(
            app_signals(slots, rate, capacity(slots, ability)), bounds=Bounds(1, 90), until=NOON + timedelta(0, second)
        )
        proposal, memory = tuner.propose(seen, deployment(slots), memory)
        slots = target(proposal, slots)
        stored: Any = json.loads(json.dumps(memory))
        return int(stored["apps"][APP]["operators"][APP]["failures"])

    assert evaluation(1000.0, 100.0, 0) == 0 and slots > 5
    assert evaluation(1000.0, 400.0, 10) == 1, "the step was too small, and the rate is the same"
    assert evaluation(1005.0, 900.0, 20) == 2
    assert evaluation(1000.0, 3000.0, 30) == 0
    assert evaluation(9000.0, 3000.0, 40) == 0, "another rate is no failure of the step before"


def test_repeated_evaluation_counts_its_own_observation_once() -> None:
    app = app_signals(2, 400.0, measured(2))
    own = observed({2: POWER[2]}, NOON + timedelta(seconds=10))
    once, twice = ask(app), ask(app, own)
    assert once.training == twice.training and once.changes == twice.changes


# ---- several apps, sentences, predictions


def test_apps_when_there_are_several_then_each_is_sized_and_named() -> None:
    seen = signals(app_signals(1, 400.0, measured(1)))
    other = replace(seen.apps[0], app="other", arrival_rows_per_s=5.0)
    current = deployment(1)
    current = replace(current, apps={**current.apps, "other": current.apps[APP]})
    proposal, memory = create("flow", {}).propose(replace(seen, apps=(other, *seen.apps)), current, {})
    assert [c.app for c in proposal.changes] == [APP]
    assert proposal.reason_code == "under_provisioned"
    assert set(memory["apps"]) == {APP, "other"}


def test_sentence_when_up_then_reads_naturally() -> None:
    proposal = ask(app_signals(2, 300.0, capacity(2, 187.0)))
    assert re.fullmatch(
        r"300 rows/s arrived in the last 10 s, and 2 slots can sustain 175 rows/s\. "
        r"\d slots can sustain \d+ rows/s \(\d+ % used\)\.",
        proposal.sentence,
    )
    quiet = ask(app_signals(6, 0.0, measured(6)), POWER)
    assert re.fullmatch(
        r"Only 0 rows/s arrived in the last 10 s, and 6 slots can sustain \d+ rows/s\. "
        r"1 slot can sustain \d+ rows/s \(0 % "
        r"used\)\. Scaling down and up again costs 70 slot-seconds, which it saves in 14 s\. No rise is expected\.",
        quiet.sentence,
    )


def test_sentence_when_made_then_can_be_read_back_by_its_constant() -> None:
    assert set(MESSAGES) == set(Reason)
    told = set()
    for app in (
        app_signals(2, 300.0, measured(2)),
        app_signals(8, 9.0, measured(8)),
        app_signals(3, None, None),
        app_signals(3, 9.0, None),
        app_signals(8, 100.0, measured(8), arrival_recent_rows_per_s=500.0),
        app_signals(4, 350.0, measured(2), parallelism=2),
        app_signals(4, 20.0, measured(4), backlog_rows=15_000),
        app_signals(4, 0.6 * POWER[4], measured(4, fixed_s=2.0), batch_rows_limit=1000),
        app_signals(4, 0.7 * POWER[4], measured(4, fixed_s=40.0)),
    ):
        proposal = ask(app)
        constant = MESSAGES[Reason(proposal.reason_code)]
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(.+?)", re.escape(constant))
        assert re.fullmatch(rf"{pattern}( No allowed size .+)?", proposal.sentence), proposal.sentence
        told.add(proposal.reason_code)
    assert len(told) == 9


def test_predicted_when_the_app_keeps_up_then_is_the_steady_batch() -> None:
    found = ask(app_signals(4, 0.6 * POWER[4], measured(4, fixed_s=2.0)), POWER, slack=0.9).predicted
    assert found["utilisation_ratio"] == pytest.approx(0.6, rel=0.02)
    assert found["batch_duration_s"] == pytest.approx(2.0 / (1 - found["utilisation_ratio"]))
    overloaded = ask(app_signals(8, 9000.0, measured(8)), POWER).predicted
    assert "batch_duration_s" not in overloaded, "it grows without end"


# ---- properties


@given(
    levels=histories().filter(bool),
    slots=st.integers(1, 8),
    rates=st.lists(st.floats(0, 3000), min_size=2, max_size=5).map(sorted),
    backlog=st.integers(0, 20_000),
)
@examples(25)
def test_step_up_when_more_arrives_then_is_never_shorter(
    levels: dict[int, list[float]], slots: int, rates: list[float], backlog: int
) -> None:
    p = min(levels, key=lambda level: abs(level - slots))
    found = []
    for rate in rates:
        app = app_signals(slots, rate, capacity(p, levels[p][-1]), backlog_rows=backlog)
        # on a plateau more load decides between staying on it and giving back slots that brought nothing
        found.append(target(ask(app, levels, ineffective_thr=0, bounds=Bounds(1, 12)), slots))
    steps = [p for p in found if p > slots]
    assert steps == sorted(steps) and (not steps or found[-len(steps) :] == steps)


@given(levels=histories().filter(bool), slots=st.integers(1, 8), rate=st.floats(0, 3000))
@examples(30)
def test_slots_within_the_plan_are_never_raised_and_never_fall_just_short(
    levels: dict[int, list[float]], slots: int, rate: float
) -> None:
    proposal = ask(app_signals(slots, rate, None, parallelism=slots), levels)
    wanted = target(proposal, slots)
    if wanted > slots:
        ability = median(levels[slots]) if slots in levels else proposal.curve["mean"][slots - 1]
        assert rate > 0.8 * ability * (1 - 1e-9)
    elif wanted == slots and rate > 0.85 * proposal.predicted["throughput_rows_per_s"]:
        assert proposal.reason_code in ("at_maximum", "ineffective_scaling")


@given(levels=histories(), slots=st.integers(1, 8), rate=st.floats(0, 3000))
@settings(max_examples=20, deadline=None)
def test_proposal_does_not_depend_on_the_order_of_levels(
    levels: dict[int, list[float]], slots: int, rate: float
) -> None:
    seen: Signals = signals(app_signals(slots, rate, None), observed(levels))
    turned = replace(seen, observations=tuple(sorted(seen.observations, key=lambda o: (-o.parallelism, o.time))))
    first, second = (create("flow", {}).propose(s, deployment(slots), {}) for s in (seen, turned))
    assert to_json(first[0]) == to_json(second[0]) and first[1] == second[1]

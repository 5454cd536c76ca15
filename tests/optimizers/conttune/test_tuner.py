"""ContTune as an Optimizer: one look at a time."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.contracts.decision import Memory, Proposal
from include.contracts.protocols import Optimizer
from include.contracts.signals import AppSignals, Bounds, Capacity, Objective, Signals
from optimizers.conttune.reasons import SENTENCES, Reason
from optimizers.registry import create
from tests.optimizers.builders import APP, app_signals, capacity, deployment, observed, signals
from tests.optimizers.conformance import Conformance, histories, target

POWER = {p: 100.0 * p**0.9 for p in range(1, 9)}


class TestCorrected(Conformance):
    def make(self) -> Optimizer:
        return create("conttune", {})


class TestLiteral(Conformance):
    def make(self) -> Optimizer:
        return create("conttune", {"preset": "literal"})


class TestMixed(Conformance):
    """Corrections and ablations in combinations of no preset."""

    def make(self) -> Optimizer:
        return create("conttune", {"known_arrival_rate": False, "acquisition": "cei", "surrogate": "rbf", "alpha": 0})


class TestLinearAlone(Conformance):
    def make(self) -> Optimizer:
        return create("conttune", {"small": "linear", "micro_batch": False, "stop_rule": False})


def ask(
    app: AppSignals,
    levels: dict[int, Any] | None = None,
    *,
    memory: Memory | None = None,
    bounds: Bounds | None = None,
    objective: Objective | None = None,
    **options: Any,
) -> Proposal:
    seen = signals(app, observed(levels or {}), bounds, objective)
    return create("conttune", options).propose(seen, deployment(app.slots), memory or {})[0]


def measured(p: int) -> Capacity:
    return capacity(p, POWER[p])


def outcome(proposal: Proposal, slots: int) -> tuple[int, str]:
    return target(proposal, slots), proposal.reason_code


# ---- up


def test_cold_start_when_one_level_is_measured_then_one_step_reaches_a_feasible_level() -> None:
    proposal = ask(app_signals(1, 400.0, measured(1)))
    # PA(6) = 502 is the first with room for 400 / 0.8 = 500; DS2 would say 5
    assert outcome(proposal, 1) == (6, "under_provisioned")
    assert proposal.training["parallelism"] == (1.0,)
    assert proposal.curve["parallelism"] == tuple(float(p) for p in range(1, 9))


def test_cold_start_when_linear_exponent_is_ds2s_then_p_lin_is() -> None:
    assert target(ask(app_signals(1, 400.0, measured(1)), exponent=1.0, small="linear"), 1) == 5


def test_up_when_the_load_is_beyond_all_levels_then_goes_to_the_maximum_and_stays_there() -> None:
    assert outcome(ask(app_signals(1, 9000.0, measured(1))), 1) == (8, "under_provisioned")
    assert outcome(ask(app_signals(8, 9000.0, measured(8)), POWER), 8) == (8, "at_maximum")


def test_up_when_only_the_planned_utilisation_is_exceeded_then_says_so() -> None:
    proposal = ask(app_signals(4, 0.9 * POWER[4], measured(4)), POWER)
    assert outcome(proposal, 4) == (5, "utilisation_above_target")
    assert proposal.predicted["utilisation_ratio"] <= 0.8


def test_up_when_the_plan_is_missed_by_less_than_the_tolerance_then_stays() -> None:
    assert outcome(ask(app_signals(4, 0.83 * POWER[4], measured(4)), POWER), 4) == (4, "well_provisioned")
    assert target(ask(app_signals(4, 0.83 * POWER[4], measured(4)), POWER, tolerance=0), 4) == 5


def test_up_when_the_latency_goal_needs_it_then_says_so() -> None:
    app = app_signals(4, 0.5 * POWER[4], capacity(4, POWER[4], fixed_s=6.0))
    proposal = ask(app, POWER, objective=Objective(max_lag_s=10.0))
    wanted, reason = outcome(proposal, 4)
    assert (wanted > 4, reason) == (True, "latency_goal")
    assert proposal.predicted["batch_duration_s"] <= 10.0


def test_latency_when_no_level_can_meet_it_then_says_so_and_does_not_ramp() -> None:
    app = app_signals(4, 0.7 * POWER[4], capacity(4, POWER[4], fixed_s=12.0))
    assert outcome(ask(app, POWER, objective=Objective(max_lag_s=10.0)), 4) == (4, "latency_unattainable")


def test_backlog_when_it_does_not_drain_in_time_then_is_a_reason_for_more() -> None:
    app = app_signals(4, 0.7 * POWER[4], measured(4), backlog_rows=15_000)
    assert outcome(ask(app, POWER), 4) == (6, "backlog_to_drain")
    assert target(ask(app, POWER, catch_up=False), 4) == 4


def test_backlog_when_our_own_restart_caused_it_then_no_step_either_way() -> None:
    app = app_signals(4, 0.7 * POWER[4], measured(4), backlog_rows=15_000, restart_lag_rows=15_000)
    assert outcome(ask(app, POWER), 4) == (4, "draining")
    quiet = app_signals(4, 20.0, measured(4), backlog_rows=15_000, restart_lag_rows=15_000)
    assert outcome(ask(quiet, POWER), 4) == (4, "draining")


@pytest.mark.parametrize(("flag", "reason"), [(True, "source_splits"), (False, "too_few_tasks")])
def test_up_when_fewer_tasks_than_slots_ran_then_never(flag: bool, reason: str) -> None:
    app = app_signals(4, 350.0, measured(2), parallelism=2, source_splits=flag)
    assert outcome(ask(app, POWER), 4) == (4, reason)
    barely = replace(app, arrival_rows_per_s=180.0)  # 3 slots would do, if there were work for 3
    assert outcome(ask(barely, POWER), 4) == (4, reason)
    ignored = ask(replace(app, arrival_rows_per_s=500.0), POWER, source_splits=False)
    assert target(ignored, 4) > 4


def test_down_when_fewer_tasks_than_slots_ran_then_is_allowed() -> None:
    app = app_signals(6, 20.0, measured(2), parallelism=2, source_splits=True)
    assert outcome(ask(app, POWER), 6) == (1, "over_provisioned")


def test_up_when_more_slots_brought_nothing_then_stops_with_that_reason() -> None:
    flat = {1: 100.0, 2: 190.0, 4: 195.0}
    app = app_signals(4, 400.0, capacity(4, 195.0))
    assert outcome(ask(app, flat), 4) == (4, "ineffective_scaling")
    assert target(ask(app, flat, ineffective_stop=False), 4) > 4
    assert outcome(ask(app_signals(1, 400.0, capacity(1, 100.0)), flat), 1) == (2, "under_provisioned")


# ---- down


def test_down_when_the_night_is_quiet_then_goes_to_the_minimum() -> None:
    for rate in (0.0, 0.2):
        assert outcome(ask(app_signals(7, rate, measured(7)), POWER), 7) == (1, "over_provisioned")
    assert target(ask(app_signals(7, 0.0, measured(7)), POWER, bounds=Bounds(2, 8)), 7) == 2


def test_down_when_nothing_runs_and_nothing_arrives_then_earlier_figures_serve() -> None:
    idle = app_signals(7, 0.0, None, parallelism=None, batches=0, healthy_batches=0, slot_busy_ratio=0.0)
    assert outcome(ask(idle, {1: 100.0, 6: 500.0}), 7) == (1, "over_provisioned")


def test_down_when_the_present_level_is_not_measured_then_never_below_all_measured_ones() -> None:
    idle = app_signals(7, 0.0, None, parallelism=None, batches=0)
    assert target(ask(idle, {4: 350.0, 6: 500.0}), 7) == 4
    assert outcome(ask(idle, {7: 570.0}), 7) == (7, "level_not_proven")


def test_down_when_little_can_be_won_then_stays() -> None:
    # 300 / 0.8 = 375 of PA(5) = 426: 12 % are unused
    assert outcome(ask(app_signals(5, 300.0, measured(5)), POWER), 5) == (5, "well_provisioned")
    assert target(ask(app_signals(5, 270.0, measured(5)), POWER, stop_rule=False), 5) == 4


def test_down_when_the_lower_level_would_be_just_feasible_then_stays() -> None:
    rate = 0.8 * POWER[1] * 0.97
    assert outcome(ask(app_signals(2, rate, measured(2)), POWER), 2) == (2, "no_safe_lower_level")
    assert target(ask(app_signals(2, rate, measured(2)), POWER, stop_rule=False), 2) == 1


def test_down_when_the_lower_level_was_never_measured_then_its_lower_bound_counts() -> None:
    rate = 0.8 * POWER[1] / 1.12
    assert target(ask(app_signals(2, rate, measured(2)), POWER), 2) == 1
    assert outcome(ask(app_signals(2, rate, measured(2)), {2: POWER[2]}), 2) == (2, "no_safe_lower_level")


@pytest.mark.parametrize("slots", range(2, 9))
def test_level_when_left_downward_then_is_not_returned_to_at_the_same_load(slots: int) -> None:
    for rate in range(0, 500, 29):
        lower = target(ask(app_signals(slots, rate, measured(slots)), POWER), slots)
        if lower < slots:
            assert target(ask(app_signals(lower, rate * 1.08, measured(lower)), POWER), lower) <= lower


# ---- literal


def literal(app: AppSignals, levels: dict[int, Any] | None = None, **more: Any) -> Proposal:
    return ask(app, levels, preset="literal", **more)


def busy(slots: int, rate: float, **changes: Any) -> AppSignals:
    return app_signals(slots, rate, measured(slots), backpressured_ratio=1.0, slot_busy_ratio=0.9, **changes)


def idle(slots: int, rate: float, **changes: Any) -> AppSignals:
    return app_signals(slots, rate, measured(slots), slot_busy_ratio=0.2, **changes)


def test_literal_when_under_provisioned_then_lifts_to_the_highest_level_known() -> None:
    assert outcome(literal(busy(2, 180.0), {6: 500.0}), 2) == (6, "binary_lifting")
    assert outcome(literal(busy(6, 500.0), {6: 500.0}, bounds=Bounds(1, 100)), 6) == (12, "binary_lifting")
    assert outcome(literal(busy(6, 500.0), {6: 500.0}), 6) == (8, "binary_lifting")
    assert outcome(literal(busy(8, 500.0)), 8) == (8, "lifting_exhausted")


def test_literal_when_nothing_was_ever_measured_then_big_lifts_all_the_same() -> None:
    app = app_signals(2, 150.0, None, backpressured_ratio=1.0, slot_busy_ratio=0.9)
    assert outcome(literal(app), 2) == (4, "binary_lifting")


def test_literal_when_big_has_ended_then_small_follows_though_the_job_is_neither() -> None:
    tuner = create("conttune", {"preset": "literal"})
    seen = signals(busy(2, 180.0), observed(POWER))
    _, memory = tuner.propose(seen, deployment(2), {})
    normal = app_signals(8, 300.0, measured(8), slot_busy_ratio=0.6)
    assert outcome(literal(normal, POWER), 8) == (8, "well_provisioned")
    proposal, memory = tuner.propose(signals(normal, observed(POWER)), deployment(8), memory)
    assert outcome(proposal, 8) == (4, "over_provisioned")
    assert tuner.propose(signals(normal, observed(POWER)), deployment(8), memory)[0].changes == ()


def test_literal_when_over_provisioned_then_small_serves_lambda_alone() -> None:
    app = idle(8, 340.0, backlog_rows=99_999)
    assert outcome(literal(app, POWER), 8) == (4, "over_provisioned")  # PA(4) = 348, no room, no catch-up


def test_literal_when_the_level_was_observed_then_sticks_until_unstick_frees_it() -> None:
    sticky = {1: 100.0, 8: POWER[8]}  # between them the authors' GP falls far below both
    assert outcome(literal(idle(8, 450.0), sticky), 8) == (8, "well_provisioned")
    assert outcome(literal(idle(8, 450.0), sticky, unstick=True), 8) == (6, "over_provisioned")


def test_literal_when_lambda_is_known_then_no_big_phase_is_needed() -> None:
    proposal = literal(busy(2, 340.0), POWER, known_arrival_rate=True)
    assert outcome(proposal, 2) == (4, "under_provisioned")


def test_literal_when_big_is_off_then_small_sees_only_what_is_processed() -> None:
    app = busy(2, 340.0, processed_rows_per_s=180.0)
    assert target(literal(app, POWER, big=False), 2) == 2
    assert target(literal(app, POWER, big=False, small="none"), 2) == 2


def test_literal_when_state_is_unknown_then_holds() -> None:
    assert outcome(literal(app_signals(4, 1.0, measured(4), slot_busy_ratio=None)), 4) == (4, "state_unknown")


def test_small_when_linear_then_is_big_plus_ds2() -> None:
    assert target(literal(idle(8, 325.0), {8: POWER[8]}, small="linear"), 8) == 5
    assert target(literal(idle(8, 325.0), POWER, small="linear"), 8) == 5
    assert target(literal(idle(8, 325.0), POWER), 8) == 4


def test_acquisition_when_cei_then_dares_more_than_eq_5() -> None:
    noisy = {1: (60.0, 140.0), 4: (300.0, 400.0), 8: (600.0, 700.0)}
    options: dict[str, Any] = {"stop_rule": False, "alpha": float("inf")}
    app = app_signals(8, 250.0, None)
    careful, daring = (target(ask(app, noisy, acquisition=a, **options), 8) for a in ("safe", "cei"))
    assert daring < careful


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


def test_hold_when_nothing_has_been_measured_then_says_so_even_where_backlog_grows() -> None:
    app = app_signals(1, 500.0, None, backlog_rows=9000, backpressured_ratio=1.0, slot_busy_ratio=1.0)
    proposal = ask(app)
    assert outcome(proposal, 1) == (1, "capacity_unknown")
    assert proposal.curve == {} and proposal.predicted == {}


def test_capacity_when_unknown_at_present_then_earlier_levels_still_lead_up() -> None:
    assert target(ask(app_signals(2, 400.0, None), {1: 100.0}), 2) == 6


def test_slots_when_outside_new_bounds_then_are_brought_inside() -> None:
    assert outcome(ask(app_signals(8, 500.0, measured(8)), POWER, bounds=Bounds(1, 4)), 8) == (4, "out_of_bounds")
    assert outcome(ask(app_signals(1, 5.0, measured(1)), POWER, bounds=Bounds(3, 4)), 1) == (3, "out_of_bounds")


def test_slots_when_another_version_was_measured_than_is_current_then_settling() -> None:
    seen = signals(app_signals(2, 900.0, measured(2)))
    assert create("conttune", {}).propose(seen, deployment(4), {})[0].reason_code == "settling"


# ---- several apps, sentences


def test_apps_when_there_are_several_then_each_is_sized_and_named() -> None:
    seen = signals(app_signals(1, 400.0, measured(1)))
    other = replace(seen.apps[0], app="other", arrival_rows_per_s=5.0)
    current = deployment(1)
    current = replace(current, apps={**current.apps, "other": current.apps[APP]})
    proposal, memory = create("conttune", {}).propose(replace(seen, apps=(other, *seen.apps)), current, {})
    assert [(c.app, c.value) for c in proposal.changes] == [(APP, 6)]
    assert proposal.reason_code == "under_provisioned"
    assert set(memory["operators"]) == {APP, "other"}


def test_sentence_when_up_then_reads_as_a_person_would_say_it() -> None:
    proposal = ask(app_signals(2, 300.0, capacity(2, 187.0)))
    assert proposal.sentence == (
        "300 rows/s arrive and 2 slots can process 187 rows/s: 5 slots can process 427 rows/s at 70 % utilisation."
    )
    quiet = ask(app_signals(6, 0.0, measured(6)), POWER)
    assert re.fullmatch(
        r"Only 0 rows/s arrive and 6 slots can process \d+ rows/s: 1 slot can process \d+ rows/s at 0 % utilisation\.",
        quiet.sentence,
    )


def test_sentence_when_made_then_can_be_read_back_by_its_constant() -> None:
    seen: dict[str, Signals] = {}
    assert set(SENTENCES) == set(Reason)
    for app in (app_signals(2, 300.0, measured(2)), app_signals(8, 9.0, measured(8)), app_signals(3, None, None)):
        proposal = ask(app)
        constant = SENTENCES[Reason(proposal.reason_code)]
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(.+?)", re.escape(constant))
        assert re.fullmatch(pattern, proposal.sentence), proposal.sentence
        seen[proposal.reason_code] = signals(app)
    assert len(seen) == 3


# ---- properties


@given(
    levels=histories().filter(bool),
    slots=st.integers(1, 8),
    rates=st.lists(st.floats(0, 3000), min_size=2, max_size=6).map(sorted),
    backlog=st.integers(0, 20_000),
)
@settings(max_examples=40, deadline=None)
def test_slots_when_more_arrives_then_are_never_fewer(
    levels: dict[int, list[float]], slots: int, rates: list[float], backlog: int
) -> None:
    p = min(levels, key=lambda level: abs(level - slots))
    found = [
        target(ask(app_signals(slots, rate, capacity(p, levels[p][-1]), backlog_rows=backlog), levels), slots)
        for rate in rates
    ]
    assert found == sorted(found)


@given(levels=histories().filter(bool), slots=st.integers(1, 8), rate=st.floats(0, 3000))
@settings(max_examples=40, deadline=None)
def test_slots_when_the_app_keeps_within_the_plan_then_are_never_more(
    levels: dict[int, list[float]], slots: int, rate: float
) -> None:
    proposal = ask(app_signals(slots, rate, None, parallelism=slots), levels)
    ability = proposal.curve["mean"][slots - 1]
    if rate <= 0.8 * ability:
        assert target(proposal, slots) <= slots
    elif rate > 0.85 * ability and not proposal.changes:
        assert proposal.reason_code in ("at_maximum", "ineffective_scaling", "below_decision_threshold")


# ---- windows


def test_window_when_the_rate_jumped_since_the_last_look_then_one_look_is_waited_for() -> None:
    tuner, memory = create("conttune", {}), {}
    found = []
    for rate in (500.0, 300.0, 200.0, 100.0):  # it jumps in every look, and the wait is one look all the same
        seen = signals(app_signals(8, rate, measured(8)), observed(POWER))
        proposal, memory = tuner.propose(seen, deployment(8), memory)
        found.append(outcome(proposal, 8))
    assert found == [(8, "well_provisioned"), (8, "window_half_old"), (4, "over_provisioned"), (8, "window_half_old")]


def test_window_when_the_app_cannot_keep_up_then_nothing_is_waited_for() -> None:
    tuner = create("conttune", {})
    _, memory = tuner.propose(signals(app_signals(2, 100.0, measured(2)), observed(POWER)), deployment(2), {})
    proposal, _ = tuner.propose(signals(app_signals(2, 400.0, measured(2)), observed(POWER)), deployment(2), memory)
    assert outcome(proposal, 2) == (6, "under_provisioned")


def test_window_when_the_rate_is_steady_then_nothing_is_waited_for() -> None:
    tuner = create("conttune", {})
    _, memory = tuner.propose(signals(app_signals(4, 290.0, measured(4), source_splits=True)), deployment(4), {})
    proposal, _ = tuner.propose(signals(app_signals(4, 310.0, measured(4)), observed(POWER)), deployment(4), memory)
    assert outcome(proposal, 4) == (5, "utilisation_above_target")


def test_window_when_waited_for_in_the_big_phase_then_the_tuning_goes_on() -> None:
    tuner = create("conttune", {"preset": "literal", "whole_windows": True})
    _, memory = tuner.propose(signals(busy(2, 180.0), observed(POWER)), deployment(2), {})
    seen = signals(app_signals(8, 300.0, measured(8), slot_busy_ratio=0.6), observed(POWER))
    first, memory = tuner.propose(seen, deployment(8), memory)
    second, _ = tuner.propose(seen, deployment(8), memory)
    assert outcome(first, 8) == (8, "window_half_old")
    assert outcome(second, 8) == (4, "over_provisioned")


def test_window_when_a_look_was_still_settling_then_its_rate_counts_as_the_earlier_one() -> None:
    tuner = create("conttune", {})
    _, memory = tuner.propose(signals(app_signals(8, 500.0, measured(8)), observed(POWER)), deployment(8), {})
    quiet = signals(app_signals(8, 100.0, measured(8)), observed(POWER))
    _, memory = tuner.propose(replace(quiet, settling=True), deployment(8), memory)
    assert outcome(tuner.propose(quiet, deployment(8), memory)[0], 8) == (2, "over_provisioned")


# ---- what only some combinations of options reach


def test_down_when_the_papers_state_rule_and_the_stop_rule_meet_then_slack_counts() -> None:
    proposal = ask(idle(5, 0.8 * POWER[5]), POWER, micro_batch=False)
    assert outcome(proposal, 5) == (5, "slack_too_small")
    assert target(ask(idle(5, 0.8 * POWER[5]), POWER, micro_batch=False, stop_rule=False), 5) == 4


def test_p_lin_when_it_contradicts_what_is_known_then_is_held_by_monotone_only() -> None:
    odd = {1: 60.0, 2: 187.0, 4: 348.0}
    app = app_signals(1, 200.0, capacity(1, 60.0))
    assert target(ask(app, odd, alpha=0), 1) == 4
    assert target(ask(app, odd, alpha=0, monotone=False), 1) == 5


def test_backlog_when_unknown_then_matters_only_where_it_is_to_be_caught_up() -> None:
    app = app_signals(2, 400.0, measured(2), backlog_rows=None)
    assert target(ask(app, POWER, catch_up=False), 2) == 6


def test_memory_when_an_app_was_not_measured_then_is_kept() -> None:
    kept = {"operators": {"other": {"p_max": 4, "phase": "big", "rate": 3.0, "waited": False, "fixed_s": {"1": [2.0]}}}}
    _, memory = create("conttune", {}).propose(signals(app_signals(2, 9.0, measured(2))), deployment(2), kept)
    assert memory["operators"]["other"] == kept["operators"]["other"]


def test_predicted_when_the_app_keeps_up_then_is_the_steady_batch() -> None:
    found = ask(app_signals(4, 0.6 * POWER[4], capacity(4, POWER[4], fixed_s=2.0)), POWER).predicted
    assert found["utilisation_ratio"] == pytest.approx(0.6, rel=0.02)
    assert found["batch_duration_s"] == pytest.approx(2.0 / (1 - found["utilisation_ratio"]))
    overloaded = ask(app_signals(8, 9000.0, measured(8)), POWER).predicted
    assert "batch_duration_s" not in overloaded, "it grows without end"

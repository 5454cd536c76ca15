"""Literal and strong ContTune on an app as one operator, one evaluation at a time."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from millrace.model.decision import Memory, Proposal
from millrace.model.objective import Bounds
from millrace.model.signals import AppSignals, Capacity
from millrace.optimizers.conformance.builders import APP, app_signals, capacity, deployment, observed, signals, target
from millrace.optimizers.conttune import messages as shared
from millrace.optimizers.registry import create
from millrace_rivals.messages import MESSAGES, RivalReason

POWER = {p: 100.0 * p**0.9 for p in range(1, 9)}


def ask(
    app: AppSignals,
    levels: dict[int, Any] | None = None,
    *,
    memory: Memory | None = None,
    bounds: Bounds | None = None,
    **options: Any,
) -> Proposal:
    seen = signals(app, observed(levels or {}), bounds)
    return create("conttune", options).propose(seen, deployment(app.slots), memory or {})[0]


def measured(p: int) -> Capacity:
    return capacity(p, POWER[p])


def outcome(proposal: Proposal, slots: int) -> tuple[int, str]:
    return target(proposal, slots), proposal.reason_code


def busy(slots: int, rate: float, **changes: Any) -> AppSignals:
    return app_signals(slots, rate, measured(slots), backpressured_ratio=1.0, slot_busy_ratio=0.9, **changes)


def idle(slots: int, rate: float, **changes: Any) -> AppSignals:
    return app_signals(slots, rate, measured(slots), slot_busy_ratio=0.2, **changes)


# ---- Big


def test_big_when_under_provisioned_then_lifts_to_the_highest_level_known() -> None:
    assert outcome(ask(busy(2, 180.0), {6: 500.0}), 2) == (6, "binary_lifting")
    assert outcome(ask(busy(6, 500.0), {6: 500.0}, bounds=Bounds(1, 100)), 6) == (12, "binary_lifting")
    assert outcome(ask(busy(6, 500.0), {6: 500.0}), 6) == (8, "binary_lifting")
    assert outcome(ask(busy(8, 500.0)), 8) == (8, "lifting_exhausted")


def test_big_keeps_within_bounds_that_were_lowered() -> None:
    assert outcome(ask(busy(2, 180.0), {64: 5000.0}, bounds=Bounds(1, 8)), 2) == (8, "binary_lifting")


def test_big_when_nothing_was_ever_measured_then_still_lifts() -> None:
    app = app_signals(2, 150.0, None, backpressured_ratio=1.0, slot_busy_ratio=0.9)
    assert outcome(ask(app), 2) == (4, "binary_lifting")


def test_small_follows_big_even_if_the_job_is_neither() -> None:
    tuner = create("conttune", {})
    seen = signals(busy(2, 180.0), observed(POWER))
    _, memory = tuner.propose(seen, deployment(2), {})
    normal = app_signals(8, 300.0, measured(8), slot_busy_ratio=0.6)
    assert outcome(ask(normal, POWER), 8) == (8, "well_provisioned")
    proposal, memory = tuner.propose(signals(normal, observed(POWER)), deployment(8), memory)
    assert outcome(proposal, 8) == (4, "over_provisioned")
    assert tuner.propose(signals(normal, observed(POWER)), deployment(8), memory)[0].changes == ()


def test_big_when_off_then_small_sees_only_the_processing_rate() -> None:
    app = busy(2, 340.0, processed_rows_per_s=180.0)
    assert target(ask(app, POWER, big=False), 2) == 2
    assert target(ask(app, POWER, big=False, small="none"), 2) == 2


def test_big_when_lambda_is_known_then_is_not_needed() -> None:
    proposal = ask(busy(2, 340.0), POWER, known_arrival_rate=True)
    assert outcome(proposal, 2) == (4, "under_provisioned")


# ---- Small


def test_small_when_over_provisioned_then_serves_only_lambda() -> None:
    assert outcome(ask(idle(8, 340.0, backlog_rows=99_999), POWER), 8) == (4, "over_provisioned")  # PA(4) = 348


def test_small_when_headroom_is_wanted_then_serves_lambda_with_it() -> None:
    assert target(ask(idle(8, 340.0), POWER, headroom=0.1), 8) == 5  # PA(5) = 426


def test_small_does_not_count_rows_that_come_from_the_backlog() -> None:
    app = idle(8, 340.0, processed_rows_per_s=600.0, backlog_growth_rows_per_s=-260.0)
    assert target(ask(app, POWER), 8) == 4
    hardly = idle(8, 340.0, processed_rows_per_s=360.0, backlog_growth_rows_per_s=-17.0)
    assert target(ask(hardly, POWER), 8) == 5


def test_small_keeps_an_observed_level_until_unstick_frees_it() -> None:
    sticky = {1: 100.0, 8: POWER[8]}  # between them the authors' GP falls far below both
    assert outcome(ask(idle(8, 450.0), sticky), 8) == (8, "well_provisioned")
    assert outcome(ask(idle(8, 450.0), sticky, unstick=True), 8) == (6, "over_provisioned")


def test_unstick_never_leads_down_to_a_level_seen_to_be_too_small() -> None:
    seen = {1: 100.0, 6: 440.0, 8: POWER[8]}
    assert target(ask(idle(8, 450.0), seen, unstick=True, alpha=0), 8) == 7
    assert target(ask(idle(8, 450.0), {**seen, 7: 445.0}, unstick=True, alpha=0), 8) == 8


def test_unstick_leads_an_under_provisioned_job_up() -> None:
    odd = {2: 450.0, 4: 399.0}  # the lower level was measured on a better day
    app = app_signals(4, 400.0, capacity(4, 399.0), backpressured_ratio=1.0, slot_busy_ratio=0.9)
    assert target(ask(app, odd, known_arrival_rate=True), 4) == 2
    assert target(ask(app, odd, known_arrival_rate=True, unstick=True), 4) == 5


def test_small_when_linear_then_is_big_plus_ds2() -> None:
    assert target(ask(idle(8, 325.0), {8: POWER[8]}, small="linear"), 8) == 5
    assert target(ask(idle(8, 325.0), POWER, small="linear"), 8) == 5
    assert target(ask(idle(8, 325.0), POWER), 8) == 4


def test_small_when_no_level_up_to_p_max_is_feasible_then_is_p_lin() -> None:
    app = app_signals(4, 600.0, measured(4), slot_busy_ratio=0.2)
    assert target(ask(app, {1: 100.0, 4: POWER[4]}, bounds=Bounds(1, 64)), 4) == 7  # 600 / (348 / 4)


def test_alpha_when_0_then_uses_only_observed_levels_and_p_lin() -> None:
    seen = {2: POWER[2], 4: POWER[4], 8: POWER[8]}
    assert target(ask(idle(8, 340.0), seen, alpha=0), 8) == 4
    assert target(ask(idle(8, 250.0), seen, alpha=0), 8) == 4  # p_acq = 3 is not observed, p_lin = 4
    assert target(ask(idle(8, 250.0), seen, alpha=3), 8) == 3


def test_acquisition_when_cei_then_goes_lower_than_eq_5() -> None:
    seen = {4: 350.0, 8: POWER[8]}
    careful, daring = (target(ask(idle(8, 340.0), seen, acquisition=a, alpha=float("inf")), 8) for a in ("safe", "cei"))
    assert (careful, daring) == (4, 1)


def test_top_k_when_1_then_only_the_newest_observation_of_a_level_counts() -> None:
    scattered = {4: (500.0, 500.0, 500.0, 300.0), 8: POWER[8]}
    assert target(ask(idle(8, 440.0), scattered, alpha=0), 8) == 4
    assert target(ask(idle(8, 440.0), scattered, alpha=0, top_k=1), 8) == 6  # p_lin: 300 are too few


def test_decision_thr_when_the_change_is_smaller_then_nothing_changes() -> None:
    assert outcome(ask(idle(8, 340.0), POWER, decision_thr=1.1), 8) == (8, "below_decision_threshold")


# ---- stop rule


def strong(app: AppSignals, memory: Memory | None = None, **options: Any) -> tuple[Proposal, Memory]:
    tuner = create("conttune", {"preset": "strong", **options})
    return tuner.propose(signals(app, observed(POWER)), deployment(app.slots), memory or {})


def test_stop_rule_keeps_a_healthy_step_until_the_load_changes() -> None:
    proposal, memory = strong(idle(8, 400.0))
    assert outcome(proposal, 8) == (5, "over_provisioned")
    assert target(strong(idle(8, 400.0), memory)[0], 8) == 5, "it was not made"
    resting, memory = strong(idle(5, 400.0 * 0.92), memory)
    assert outcome(resting, 5) == (5, "step_sufficed")
    assert outcome(strong(idle(5, 300.0), memory)[0], 5) == (4, "over_provisioned")


def test_stop_rule_when_the_step_was_too_small_then_another_follows() -> None:
    _, memory = strong(idle(8, 400.0))
    proposal, _ = strong(busy(5, 500.0), memory)
    assert outcome(proposal, 5) == (6, "under_provisioned")


def test_stop_rule_when_little_is_unused_then_it_is_not_shaved_off() -> None:
    app = idle(5, 0.95 * POWER[5])
    assert outcome(strong(app)[0], 5) == (5, "slack_too_small")
    assert outcome(strong(idle(5, 0.85 * POWER[4]))[0], 5) == (4, "over_provisioned")


def test_stop_rule_takes_nothing_away_while_a_backlog_keeps_the_job_busy() -> None:
    assert outcome(strong(busy(8, 300.0))[0], 8) == (8, "at_maximum")
    assert outcome(strong(busy(6, 300.0))[0], 6) == (6, "no_higher_level")
    assert target(strong(busy(6, 300.0), stop_rule=False)[0], 6) == 4


# ---- holds


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"arrival_rows_per_s": None}, "rate_unknown"),
        ({"arrival_rows_per_s": -3.0}, "bad_signals"),
        ({"capacity": capacity(8, float("nan"))}, "bad_signals"),
        ({"slot_busy_ratio": None}, "state_unknown"),
    ],
)
def test_hold_when_figures_are_missing_or_impossible_then_says_which(changes: dict[str, Any], reason: str) -> None:
    app = replace(idle(8, 100.0), **changes)
    proposal = ask(app, POWER, preset="strong")
    assert (proposal.changes, proposal.reason_code) == ((), reason)


def test_hold_when_nothing_has_been_measured_then_says_so() -> None:
    proposal = ask(app_signals(4, 1.0, None, slot_busy_ratio=0.1))
    assert outcome(proposal, 4) == (4, "capacity_unknown")
    assert proposal.curve == {} and proposal.predicted == {}


def test_observations_when_contradictory_then_still_give_a_decision() -> None:
    odd = {1: 900.0, 2: 3.0, 4: (1.0, 800.0), 8: 2.0}
    for options in ({}, {"surrogate": "rbf_white"}, {"acquisition": "cei", "alpha": float("inf")}):
        proposal = ask(app_signals(8, 500.0, capacity(8, 2.0), slot_busy_ratio=0.2), odd, **options)
        assert 1 <= target(proposal, 8) <= 8


def test_slots_when_outside_new_bounds_then_move_inside() -> None:
    assert outcome(ask(idle(8, 500.0), POWER, bounds=Bounds(1, 4)), 8) == (4, "out_of_bounds")
    assert outcome(ask(idle(1, 5.0), POWER, bounds=Bounds(3, 4)), 1) == (3, "out_of_bounds")


def test_slots_measured_at_another_version_count_as_settling() -> None:
    seen = signals(idle(2, 900.0))
    assert create("conttune", {}).propose(seen, deployment(4), {})[0].reason_code == "settling"


# ---- apps, models, sentences


def test_apps_when_there_are_several_then_each_is_sized_and_named() -> None:
    seen = signals(busy(1, 400.0))
    other = replace(idle(1, 60.0), app="other", slot_busy_ratio=0.5)
    current = deployment(1)
    current = replace(current, apps={**current.apps, "other": current.apps[APP]})
    proposal, memory = create("conttune", {}).propose(replace(seen, apps=(other, *seen.apps)), current, {})
    assert [(c.app, c.value) for c in proposal.changes] == [(APP, 2)]
    assert set(memory["apps"]) == {APP, "other"}


def test_memory_of_an_app_that_was_not_measured_is_kept() -> None:
    kept = {"apps": {"other": {"p_max": 4, "phase": "big"}}}
    _, memory = create("conttune", {}).propose(signals(idle(2, 9.0)), deployment(2), kept)
    assert memory["apps"]["other"] == kept["apps"]["other"]


def test_model_when_a_level_changes_then_has_its_curve_and_training() -> None:
    proposal = ask(idle(8, 340.0), POWER)
    assert proposal.curve["parallelism"] == tuple(float(p) for p in range(1, 9))
    assert proposal.training["parallelism"] == proposal.curve["parallelism"]
    assert proposal.predicted["throughput_rows_per_s"] == pytest.approx(POWER[4], rel=0.01)
    assert proposal.predicted["utilisation_ratio"] == pytest.approx(340 / POWER[4], rel=0.01)


def test_sentence_when_down_then_reads_naturally() -> None:
    assert ask(idle(8, 340.0), POWER).sentence == (
        "Only 340 rows/s arrived in the last 10 s, and 8 slots can sustain 650 rows/s. "
        "4 slots can sustain 348 rows/s (98 % used)."
    )


def test_sentences_cover_every_reason() -> None:
    assert set(MESSAGES) == set(RivalReason)
    for reason, text in [*shared.MESSAGES.items(), *MESSAGES.items()]:
        assert re.fullmatch(r"[a-z_]+", reason.value)
        assert re.search(r"(\.|\. \{verdict\}|\.\{pays\})$", text), reason

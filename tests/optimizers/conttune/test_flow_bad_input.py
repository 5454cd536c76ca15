"""Input with little, no or impossible information: a defined outcome with a reason each, never an exception."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.objective import Bounds, Objective
from millrace.model.signals import Edge, Observation
from millrace.optimizers.conformance.builders import (
    APP,
    NOON,
    app_signals,
    capacity,
    deployment,
    observed,
    target,
    with_operator,
)
from millrace.optimizers.registry import create
from tests.optimizers.conttune.flow_cases import POWER, ask, ask_job, chain, measured, outcome, targets

# ---- few observations


def test_observations_when_there_are_none_then_decide_nothing() -> None:
    assert outcome(ask(app_signals(2, 300.0, None)), 2) == (2, "capacity_unknown")
    seen = with_operator(chain(300.0, {"a": 2}), "a", throughput=None)
    found = ask_job(seen, {"a": 2})
    assert (targets(found), found.reason_code) == ({}, "capacity_unknown")


def test_one_observation_is_enough_for_a_step_with_room() -> None:
    for found in (ask(app_signals(2, 300.0, measured(2))), ask(app_signals(2, 300.0, None), {2: POWER[2]})):
        assert found.reason_code == "under_provisioned" and target(found, 2) > 4
        assert found.training["parallelism"] == (2.0,)


def test_identical_observations_are_one_level_known_well() -> None:
    same = observed({2: [POWER[2]] * 30})
    once = ask(app_signals(2, 300.0, measured(2)), bounds=Bounds(1, 90))
    often = ask(app_signals(2, 300.0, measured(2)), same, bounds=Bounds(1, 90))
    assert 4 < target(often, 2) <= target(once, 2)
    assert often.training["noise"][0] < once.training["noise"][0]


def test_useless_scaling_is_not_tried_again() -> None:
    flat = {p: [100.0] * 4 for p in (1, 2, 4, 8)}
    assert outcome(ask(app_signals(4, 300.0, capacity(4, 100.0)), flat), 4) == (1, "ineffective_scaling")
    assert outcome(ask(app_signals(1, 300.0, capacity(1, 100.0)), flat), 1) == (1, "ineffective_scaling")


# ---- impossible figures


@pytest.mark.parametrize(
    "name", ["arrival_rows_per_s", "arrival_recent_rows_per_s", "processed_rows_per_s", "backlog_rows"]
)
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_impossible_figure_of_an_app_is_named_and_changes_nothing(name: str, value: float) -> None:
    proposal = ask(replace(app_signals(4, 1.0, measured(4)), **{name: value}), POWER)
    assert outcome(proposal, 4) == (4, "bad_signals")
    assert f"{name} is {value:g}" in proposal.sentence


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0])
def test_impossible_ability_of_an_app_is_named_and_changes_nothing(value: float) -> None:
    proposal = ask(app_signals(4, 1.0, capacity(4, value)), POWER)
    assert outcome(proposal, 4) == (4, "bad_signals") and "rows_per_s" in proposal.sentence


def test_invalid_growth_of_a_backlog_counts_as_none() -> None:
    seen = chain(1.01 * POWER[4], {"a": 4}, backlog_growth_rows_per_s=math.nan)
    assert targets(ask_job(seen, {"a": 4})) == {}


BAD = [(math.nan, 0.0), (math.inf, 0.0), (-5.0, 0.0), (0.0, 0.0), (5e-324, 0.0), (1e300, 0.0)]
BAD += [(250.0, math.nan), (250.0, math.inf), (250.0, -1.0)]


@pytest.mark.parametrize(("ability", "noise"), BAD)
def test_stored_but_impossible_observation_is_ignored(ability: float, noise: float) -> None:
    bad = Observation(APP, 3, ability, noise, 5, NOON - timedelta(seconds=3))
    app = app_signals(2, 300.0, measured(2))
    assert ask(app, [*observed(POWER), bad]) == ask(app, POWER)
    assert ask(app, [bad]) == ask(app)
    below = replace(bad, parallelism=0, throughput=100.0, noise=0.0)
    assert ask(app, [below]) == ask(app)


# ---- contradictions


CONTRADICTIONS: dict[str, dict[int, Sequence[float]]] = {
    "one level says two things": {4: [100.0, 800.0, 100.0, 800.0], 1: [100.0]},
    "more is always less": {p: [100.0 / p] * 3 for p in (1, 2, 4, 8)},
    "one level is a million times another": {1: [1e-3], 2: [1e6], 4: [1e-3]},
    "far better than linear": {1: [1.0], 2: [100.0], 4: [10_000.0]},
    "the ends of what is possible": {1: [1e-9], 8: [1e15]},
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
@pytest.mark.parametrize("rate", [0.0, 5.0, 300.0, 1e9])
def test_contradicting_observations_still_lead_to_a_level(name: str, rate: float) -> None:
    levels = CONTRADICTIONS[name]
    now = 4 if 4 in levels else 8
    app = app_signals(now, rate, capacity(now, levels[now][-1]))
    proposal = ask(app, levels)
    assert 1 <= target(proposal, now) <= 8
    assert proposal.reason_code and proposal.sentence.endswith(".")
    assert all(math.isfinite(v) for column in proposal.curve.values() for v in column)


def test_contradicting_rates_yield_to_the_sources() -> None:
    seen = chain(100.0, {"a": 2, "b": 2})
    edges = (Edge("in", "a", 900.0), Edge("a", "b", 0.0))  # nine times the source's output, and none of it
    seen = replace(seen, apps=(replace(seen.apps[0], edges=edges),))
    found = ask_job(seen, {"a": 2, "b": 2})
    assert set(targets(found)) >= {"a"} and found.reason_code == "under_provisioned"


# ---- outside


@pytest.mark.parametrize(("now", "bounds", "then"), [(8, (1, 4), 4), (1, (3, 4), 3), (6, (2, 2), 2)])
def test_p_outside_the_bounds_moves_inside_before_all_else(now: int, bounds: tuple[int, int], then: int) -> None:
    app = app_signals(now, 500.0, None)  # no other information is needed
    assert outcome(ask(app, bounds=Bounds(*bounds)), now) == (then, "out_of_bounds")
    seen = replace(chain(9000.0, {"a": now, "b": bounds[0]}), bounds=Bounds(*bounds))
    found = ask_job(seen, {"a": now, "b": bounds[0]})
    assert (targets(found), found.reason_code) == ({"a": then}, "out_of_bounds")


def test_bounds_when_they_leave_no_choice_then_that_level_stays() -> None:
    app = app_signals(2, 9000.0, measured(2))
    assert outcome(ask(app, POWER, bounds=Bounds(2, 2)), 2) == (2, "at_maximum")
    assert target(ask(replace(app, arrival_rows_per_s=0.0), POWER, bounds=Bounds(2, 2)), 2) == 2


def test_vanished_operator_is_named_and_changes_nothing() -> None:
    found = ask_job(chain(900.0, {"a": 2}), {"a": 2, "gone": 3})
    assert (targets(found), found.reason_code) == ({}, "operator_vanished")
    assert "gone" in found.sentence


def test_new_operator_is_left_alone_until_the_deployment_names_it() -> None:
    found = ask_job(chain(900.0, {"a": 2, "new": 2}), {"a": 2})
    assert set(targets(found)) == {"a"}


# ---- out of reach


@pytest.mark.parametrize(
    ("app", "levels", "objective", "reason"),
    [
        (app_signals(8, 9e9, measured(8)), POWER, Objective(), "at_maximum"),
        (app_signals(8, 125.0, measured(8, fixed_s=50.0)), {8: POWER[8]}, Objective(0.2), "latency_unattainable"),
        (app_signals(8, 9e9, measured(2), parallelism=2, source_splits=True), POWER, Objective(), "source_splits"),
        (app_signals(8, 9e9, measured(2), parallelism=2), POWER, Objective(), "too_few_tasks"),
    ],
)
def test_target_out_of_reach_keeps_slots_and_says_why(
    app: Any, levels: dict[int, float], objective: Objective, reason: str
) -> None:
    assert outcome(ask(app, levels, objective=objective), 8) == (8, reason)


def test_target_beyond_the_maximum_goes_there_and_stays() -> None:
    seen = chain(1e9, {"a": 4})
    assert targets(ask_job(seen, {"a": 4})) == {"a": 16}
    top = chain(1e9, {"a": 8}, bounds=Bounds(1, 8))
    found = ask_job(top, {"a": 8})
    assert (targets(found), found.reason_code) == ({}, "at_maximum")


@given(
    rates=st.lists(st.sampled_from([0.0, 5e-324, 1e-9, 1.0, 300.0, 1e15]), min_size=1, max_size=10),
    proactive=st.booleans(),
)
@settings(deadline=None, max_examples=20)
def test_evaluations_with_extreme_rate_jumps_each_have_an_outcome(rates: list[float], proactive: bool) -> None:
    memory: Any = {}
    tuner = create("flow", {"proactive": proactive})
    for number, rate in enumerate(rates):
        seen = chain(rate, {"a": 2, "b": 4}, until=NOON + timedelta(seconds=30 * number))
        found, memory = tuner.propose(seen, deployment(6, {"a": 2, "b": 4}), memory)
        assert found.reason_code and all(1 <= p <= 16 for p in targets(found).values())
        assert all(math.isfinite(v) for v in found.predicted.values())

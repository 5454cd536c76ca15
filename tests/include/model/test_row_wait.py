"""A row waits for the running batch and for its own: formulas compared with a simulation of micro-batches."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from millrace.model.objective import Objective
from millrace.model.row_wait import batch_s, highest_utilisation, longest_wait_s, sustainable, throughput

FIXED, TRIGGER = st.floats(0.1, 20), st.floats(1, 120)


def simulated_wait_s(fixed_s: float, rho: float, trigger_s: float) -> float:
    """The longest wait once batches repeat: each batch takes the rows that arrived since the previous one began."""
    read = start = 0.0
    waits = []
    for _ in range(400):
        took = fixed_s + rho * (start - read)
        waits.append(start + took - read)
        read, start = start, start + (max(took, trigger_s) if trigger_s else took)
    return max(waits[200:])


@given(FIXED, st.floats(0, 0.9), st.one_of(st.just(0.0), TRIGGER))
def test_longest_wait_is_that_of_a_row_that_just_missed_a_batch(fixed_s: float, rho: float, trigger_s: float) -> None:
    found = longest_wait_s(batch_s(fixed_s, rho, trigger_s), trigger_s)
    assert found == pytest.approx(simulated_wait_s(fixed_s, rho, trigger_s), rel=1e-3)


@given(FIXED, st.floats(1, 300), st.one_of(st.just(0.0), TRIGGER))
def test_highest_utilisation_is_where_the_goal_is_just_met(fixed_s: float, goal_s: float, trigger_s: float) -> None:
    rho = highest_utilisation(fixed_s, goal_s, trigger_s)
    if rho <= 0:
        assert longest_wait_s(batch_s(fixed_s, 0.0, trigger_s), trigger_s) >= goal_s * (1 - 1e-9)
        return
    assert rho < 1 or trigger_s
    assume(0 < rho < 1)
    assert longest_wait_s(batch_s(fixed_s, rho, trigger_s), trigger_s) == pytest.approx(goal_s)


@given(FIXED, st.floats(1, 300), st.one_of(st.none(), st.floats(1, 1e6)), st.floats(1, 1e5))
def test_sustainable_throughput_meets_the_goal_and_is_consistent(
    fixed_s: float, goal_s: float, rows: float | None, rows_per_s: float
) -> None:
    rate = sustainable(rows_per_s, fixed_s, rows, goal_s)
    assert 0 < rate <= throughput(rows_per_s, fixed_s, rows) <= rows_per_s
    if goal_s > 2 * fixed_s:
        assert longest_wait_s(batch_s(fixed_s, rate / rows_per_s)) <= goal_s * (1 + 1e-6)


def test_goal_near_zero_is_not_met_at_any_utilisation() -> None:
    assert highest_utilisation(0.0, 5e-324) == 0.0
    assert highest_utilisation(1.0, 5e-324) <= 0.0


def test_query_that_does_not_keep_up_waits_forever() -> None:
    assert math.isinf(longest_wait_s(batch_s(1.0, 1.0)))
    assert math.isinf(batch_s(1.0, 1.2, 10.0))


@given(st.floats(1, 1000), TRIGGER)
def test_goal_that_a_trigger_rules_out_becomes_twice_its_interval(goal_s: float, trigger_s: float) -> None:
    planned = Objective(max_lag_s=goal_s).with_trigger(trigger_s)
    assert planned.max_lag_s == (goal_s if goal_s > trigger_s else 2 * trigger_s)
    assert planned.planned_batch_s(None, trigger_s) >= trigger_s

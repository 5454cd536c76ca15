"""Worked examples of the paper's Algorithms 1 and 2, its acquisition functions, and DS2 for one operator."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_rivals.conttune.algorithms import FAR_BEYOND, cei, d_nearest, lift, linear, safe, suggest

FIGURE_3 = (1, 4, 9, 10, 15)


def test_big_when_an_operator_is_below_p_max_then_sets_all_to_it() -> None:
    assert lift({"map": 2, "join": 8}, 8) == ({"map": 8, "join": 8}, 8)


def test_big_when_all_are_at_p_max_already_then_doubles_it() -> None:
    assert lift({"map": 8, "join": 8}, 8) == ({"map": 16, "join": 16}, 16)


@given(st.integers(1, 4096))
def test_big_when_repeated_then_reaches_any_level_in_logarithmic_steps(needed: int) -> None:
    levels, p_max, steps = {"map": 1}, 1, 0
    while levels["map"] < needed:
        levels, p_max = lift(levels, p_max)
        steps += 1
    assert steps == math.ceil(math.log2(needed))


def test_cbo_of_figure_3_applies_p_acq_13_with_alpha_2() -> None:
    assert d_nearest(13, FIGURE_3) == 2
    assert (suggest(13, 11, FIGURE_3, 2).parallelism, suggest(13, 11, FIGURE_3, 2).means) == (13, "acq")


def test_cbo_of_figure_3_applies_p_lin_in_an_unknown_region() -> None:
    assert suggest(13, 11, FIGURE_3, 1).parallelism == 11
    assert suggest(12, 11, FIGURE_3, 1).means == "lin"


@pytest.mark.parametrize(("alpha", "means"), [(0, "lin"), (3, "acq"), (math.inf, "acq")])
def test_cbo_when_alpha_grows_then_the_model_is_trusted_further(alpha: float, means: str) -> None:
    assert suggest(7, 6, (4,), alpha).means == means


def test_cbo_when_alpha_is_0_then_uses_only_observed_levels() -> None:
    assert suggest(4, 6, (4,), 0).parallelism == 4


def test_cbo_when_nothing_is_feasible_or_observed_then_applies_p_lin() -> None:
    assert suggest(None, 6, FIGURE_3, math.inf).parallelism == 6
    assert suggest(5, 6, (), 3).parallelism == 6


def test_eq_5_when_levels_are_feasible_then_is_the_smallest() -> None:
    mu = np.array([100.0, 190.0, 280.0, 360.0])
    assert safe(mu, 190) == 2
    assert safe(mu, 190.1) == 3
    assert safe(mu, 400) is None


def test_eq_5_takes_the_smallest_feasible_if_mu_falls_in_between() -> None:
    assert safe(np.array([100.0, 20.0, 280.0, 90.0]), 95) == 1


def test_eq_4_tries_a_lower_level_that_is_likely_enough() -> None:
    mu, sigma = np.array([180.0, 190.0, 195.0, 280.0, 360.0]), np.full(5, 40.0)
    assert safe(mu, 200) == 4
    assert cei(mu, sigma, 200, observed=(5,)) == 1  # (5 - 1) * 0.31 beats (5 - 4) * 0.98


def test_eq_4_stays_at_the_minimal_feasible_if_nothing_below_is_likely() -> None:
    mu, sigma = np.array([10.0, 20.0, 280.0, 360.0]), np.zeros(4)
    assert cei(mu, sigma, 200, observed=(3, 4)) == 3


def test_eq_4_when_nothing_is_feasible_at_all_then_suggests_nothing() -> None:
    assert cei(np.array([10.0, 20.0]), np.zeros(2), 200, observed=(1, 2)) is None


def test_linear_when_one_operator_is_scaled_then_is_ds2() -> None:
    # DS2's published fixture: Source 100/s, Op1 50 per second and instance -> 2
    assert linear(1, 50.0, 100.0) == 2
    assert linear(1, 10.0, 200.0) == 20
    assert linear(4, 360.0, 180.0) == 2
    assert linear(4, 360.0, 180.1) == 3


def test_linear_when_nothing_arrives_then_is_1() -> None:
    assert linear(8, 800.0, 0.0) == 1


def test_linear_when_the_target_is_unknown_then_is_beyond_any_bound() -> None:
    assert linear(1, 5e-324, 1e300) == linear(1, 1.0, 1e300) == FAR_BEYOND

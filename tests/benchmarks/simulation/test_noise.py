from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulation.draws import Draws
from benchmarks.simulation.noise import HEAVY, KINDS, OUTLIERS, POSITIVE, SYMMETRIC, Noise, Window
from millrace.model.errors import MillraceError


def factors(noise: Noise, n: int = 40_000) -> np.ndarray:
    return noise.factors(np.random.default_rng(5), (n,))


def test_symmetric_noise_when_drawn_often_then_has_mean_1_and_its_deviation() -> None:
    drawn = factors(Noise(SYMMETRIC, 0.02))
    assert drawn.mean() == pytest.approx(1.0, abs=1e-3) and drawn.std() == pytest.approx(0.02, rel=0.02)


def test_noise_when_scaled_by_three_then_deviates_three_times_as_much_and_says_so() -> None:
    noise = Noise(SYMMETRIC, 0.02, 3.0)
    assert factors(noise).std() == pytest.approx(0.06, rel=0.02) and noise.relative == pytest.approx(0.06)


def test_positive_noise_when_drawn_then_is_never_below_the_truth() -> None:
    drawn = factors(Noise(POSITIVE, 0.02))
    assert drawn.min() >= 1 and drawn.mean() > 1.01


def test_heavy_noise_when_drawn_then_strays_further_than_normal_noise_of_that_deviation() -> None:
    heavy, normal = factors(Noise(HEAVY, 0.02)), factors(Noise(SYMMETRIC, 0.02))
    assert np.abs(heavy - 1).max() > 2 * np.abs(normal - 1).max()


def test_noise_that_is_not_reported_is_still_there() -> None:
    noise = Noise(SYMMETRIC, 0.02, 3.0, told=0.0)
    assert noise.told_relative == 0.0 and factors(noise).std() == pytest.approx(0.06, rel=0.02)


def test_one_period_in_ten_is_an_outlier() -> None:
    far = np.abs(factors(Noise(OUTLIERS, 0.02)) - 1) > 0.3
    assert far.mean() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("kind", KINDS)
@given(sd=st.floats(0, 2))
@settings(deadline=None, max_examples=20)
def test_noise_when_huge_then_leaves_abilities_positive(kind: str, sd: float) -> None:
    assert factors(Noise(kind, sd), 200).min() >= 0.05


def test_noise_when_of_unknown_kind_then_lists_the_known_ones() -> None:
    with pytest.raises(MillraceError, match="symmetric, positive, heavy"):
        Noise("pink")


@pytest.mark.parametrize("window", [Window(), Window(0.2, 0.02, 0.25), Window(0.0, 0.0, 0.0)])
def test_window_when_counted_for_long_then_has_mean_1_and_its_share_of_near_zero_periods(window: Window) -> None:
    drawn = window.factors(np.random.default_rng(2), 100_000)
    assert drawn.mean() == pytest.approx(1.0, abs=0.01)
    assert (drawn <= 0.05).mean() == pytest.approx(window.near_zero, abs=0.01)


def test_draws_when_evaluations_come_in_any_order_then_are_the_same() -> None:
    first, second = (Draws(3, Noise(), 4, (Window(),)) for _ in range(2))
    late = first.at(700)
    assert [second.at(i) for i in (1, 300, 700)][-1] == late
    assert first.at(1) == second.at(1) and first.at(1) != first.at(2)


def test_draws_when_seeds_differ_then_differ() -> None:
    assert Draws(1, Noise(), 2, ()).at(1) != Draws(2, Noise(), 2, ()).at(1)

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulation.ability import (
    MIXED,
    Curve,
    Families,
    abilities,
    amdahl,
    executors,
    plateau,
    power,
    retrograde,
    saturating,
    step,
    table,
    usl,
)
from tests.examples import examples

P = np.arange(1, 91, dtype=float)


def test_power_when_p_doubles_then_grows_by_its_exponent() -> None:
    assert power(0.8)(np.array([2.0, 4.0])) == pytest.approx([2**0.8, 4**0.8])


def test_usl_when_coherence_costs_then_peaks_where_the_law_says() -> None:
    assert P[usl(0.02, 0.001)(P).argmax()] == round(((1 - 0.02) / 0.001) ** 0.5)


def test_amdahl_approaches_the_limit_of_its_serial_share() -> None:
    values = amdahl(0.05)(np.array([1.0, 1e9]))
    assert values == pytest.approx([1.0, 20.0])


def test_slots_that_fill_no_executor_bring_nothing() -> None:
    values = executors(1.0, 4)(P)
    assert values[:9].tolist() == [1, 2, 3, 4, 4, 4, 4, 8, 8]


def test_saturating_when_far_above_its_scale_then_is_flat() -> None:
    values = saturating(5.0)(np.array([1.0, 50.0, 90.0]))
    assert values[0] == pytest.approx(0.1813, abs=1e-4) and values[2] - values[1] < 1e-4


def test_step_when_groups_are_uneven_then_is_flat_between_even_shares() -> None:
    values = step(1.0, 64)(P)
    assert values[31] == 32 and values[32] == 32 and values[62] == 32 and values[63] == 64 and values[89] == 64


def test_retrograde_when_beyond_its_peak_then_falls() -> None:
    values = retrograde(0.9, 20.0, 0.5)(P)
    assert values.argmax() == 19 and (np.diff(values[19:]) < 0).all()


def test_plateau_when_above_its_level_then_more_brings_nothing() -> None:
    values = plateau(0.85, 8.0)(P)
    assert values[7] == pytest.approx(8**0.85) and (values[7:] == values[7]).all()


def test_table_when_between_points_then_interpolates_and_meets_them() -> None:
    values = table({1: 100.0, 4: 400.0, 8: 600.0})(np.array([1.0, 2.0, 4.0, 8.0, 20.0]))
    assert values == pytest.approx([100.0, 200.0, 400.0, 600.0, 600.0])


def test_abilities_when_scaled_then_meet_the_need_at_their_level() -> None:
    values = abilities(power(1.0), 20, 10.0, 5000.0, np.zeros(20))
    assert values[9] == pytest.approx(5000.0) and values[0] == pytest.approx(500.0) and len(values) == 20


def test_abilities_when_wiggled_then_each_level_has_its_own_factor() -> None:
    values = abilities(power(1.0), 3, 1.0, 1.0, np.log([1.0, 1.5, 0.5]))
    assert values == pytest.approx([1.0, 3.0, 1.5])


@given(seed=st.integers(0, 10_000), levels=st.floats(2, 28))
@examples(60)
def test_families_when_drawn_then_are_positive_and_reach_beyond_the_peak_rate(seed: int, levels: float) -> None:
    curve = MIXED.draw(np.random.default_rng(seed), levels, 90)
    values = curve(P)
    assert np.isfinite(values).all() and (values > 0).all()
    assert values.max() >= MIXED.headroom * curve(np.array([levels]))[0] * (1 - 1e-9)


def test_families_when_drawn_often_then_all_of_them_appear() -> None:
    rng = np.random.default_rng(1)
    drawn = {MIXED.draw(rng, 15.0, 90).func.__name__ for _ in range(100)}  # type: ignore[attr-defined]
    assert drawn == {"_power", "_usl", "_saturating", "_step", "_retrograde"}


def test_families_when_only_one_is_weighted_then_only_that_is_drawn() -> None:
    only = Families({"step": 1.0})
    assert only.draw(np.random.default_rng(0), 10.0, 90).func.__name__ == "_step"  # type: ignore[attr-defined]


@pytest.mark.parametrize("curve", [power(0.8), usl(0.1, 0.01), step(0.9, 32), table({1: 1.0, 8: 4.0})])
def test_curve_when_sent_to_another_process_then_is_the_same(curve: Curve) -> None:
    assert (pickle.loads(pickle.dumps(curve))(P) == curve(P)).all()

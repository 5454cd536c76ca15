from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.signals import Observation
from millrace.optimizers.conformance.builders import APP, NOON, observed
from millrace.optimizers.conttune.observed_levels import LEAST_SCATTER, MAX_LEVELS, observed_levels, training_columns

values = st.lists(st.floats(50, 200), min_size=1, max_size=12)


def test_level_with_an_outlier_has_the_middle_of_its_observations() -> None:
    (level,) = observed_levels(observed({4: (398, 401, 900, 400, 402)}), 10)
    assert (level.parallelism, level.ability) == (4, 401)
    assert level.error < 0.03 * 401


def test_level_when_there_are_more_than_top_k_then_uses_only_the_latest() -> None:
    points = observed({2: (100, 100, 100, 200, 202, 204), 4: (350,)})
    two, four = observed_levels(points, 3)
    assert (two.ability, four.ability) == (202, 350)
    assert two.latest == max(o.time for o in points if o.parallelism == 2)


@given(abilities=values, top_k=st.integers(1, 12))
def test_error_of_repeats_never_falls_below_published_scatter(abilities: list[float], top_k: int) -> None:
    (level,) = observed_levels(observed({3: abilities}), top_k)
    n = min(top_k, len(abilities))
    assert level.error >= LEAST_SCATTER * level.ability / math.sqrt(n) * (1 - 1e-9)
    assert min(abilities) <= level.ability <= max(abilities)


def test_error_shrinks_with_the_root_of_the_observations() -> None:
    once, often = (observed_levels(observed({3: [100.0] * n}), 10)[0] for n in (1, 9))
    assert once.error == pytest.approx(LEAST_SCATTER * 100)
    assert often.error == pytest.approx(once.error / 3)


def test_error_when_measurements_show_a_greater_one_then_is_that() -> None:
    points = [Observation(APP, 2, 100.0, 12.0, 5, NOON - timedelta(seconds=s)) for s in (30, 20, 10, 0)]
    assert observed_levels(points, 10)[0].error == pytest.approx(6.0)


def test_scatter_of_other_levels_counts_for_one_seen_once() -> None:
    calm = {p: [100.0 * p] * 4 for p in (1, 2)}
    wild = {p: [90.0 * p, 100.0 * p, 110.0 * p, 100.0 * p] for p in (1, 2)}
    of_calm, of_wild = (observed_levels(observed({**seen, 8: 700.0}), 10)[-1] for seen in (calm, wild))
    assert of_calm.error == pytest.approx(LEAST_SCATTER * 700)
    assert of_wild.error > 2 * of_calm.error


def test_levels_above_the_limit_are_the_latest_by_rising_p() -> None:
    points = [
        Observation(APP, p, 10.0 * p, 0.0, 1, NOON + timedelta(seconds=(p * 7) % 211))
        for p in range(1, MAX_LEVELS + 20)
    ]
    found = observed_levels(points, 5)
    kept = [level.parallelism for level in found]
    assert len(kept) == MAX_LEVELS and kept == sorted(kept)
    newest = sorted(points, key=lambda o: o.time)[-MAX_LEVELS:]
    assert set(kept) == {o.parallelism for o in newest}


def test_training_of_levels_has_their_errors() -> None:
    told = training_columns(observed_levels(observed({1: 100.0, 4: (340.0, 360.0)}), 5))
    assert told["parallelism"] == (1.0, 4.0) and told["throughput"] == (100.0, 350.0)
    assert len(told["noise"]) == 2 and min(told["noise"]) > 0
    assert observed_levels((), 5) == ()

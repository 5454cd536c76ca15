from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.conttune.estimate import estimate, ratio

VALUES = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30)


def test_estimate_when_values_are_known_then_is_the_student_t_interval() -> None:
    found = estimate([1.0, 2.0, 3.0])
    # t of 2 degrees at 97.5 % is 4.303, the standard error 1 / sqrt(3)
    assert found.value == 2.0 and found.runs == 3
    assert found.low == pytest.approx(2 - 4.303 / math.sqrt(3), abs=1e-3)
    assert found.high == pytest.approx(2 + 4.303 / math.sqrt(3), abs=1e-3)


@given(VALUES)
def test_estimate_when_a_run_lacks_the_figure_then_it_does_not_count(values: list[float]) -> None:
    assert estimate([*values, math.nan]) == estimate(values)


@pytest.mark.parametrize(("values", "runs"), [([], 0), ([math.nan], 0), ([4.0], 1)])
def test_estimate_when_there_are_too_few_runs_then_has_no_interval(values: list[float], runs: int) -> None:
    found = estimate(values)
    assert (found.low, found.high, found.runs) == (None, None, runs)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=2, max_size=12))
def test_ratio_when_both_means_are_known_then_is_within_its_interval(
    pairs: list[tuple[float, float]],
) -> None:
    a, b = [p[0] for p in pairs], [p[1] for p in pairs]
    found = ratio(a, b)
    assert found.value == pytest.approx(np.mean(a) / np.mean(b))
    assert found.low is not None and found.high is not None
    assert min(x / y for x in a for y in b) - 1e-9 <= found.low <= found.high <= max(x / y for x in a for y in b) + 1e-9


def test_ratio_when_runs_are_paired_then_shared_effects_do_not_widen_the_interval() -> None:
    luck = np.array([1.0, 5.0, 20.0, 80.0])
    found = ratio(list(0.5 * luck), list(luck))
    assert found.low == pytest.approx(0.5) and found.high == pytest.approx(0.5)

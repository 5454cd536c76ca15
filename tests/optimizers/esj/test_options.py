from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.errors import MillraceError
from millrace.optimizers.esj.options import EsjOptions, JoinPolicy, WorkerBounds

SECTION = {"capacity": 1000, "window_s": 60.0}
TAUS = ("tau0", "tau1", "tau2", "tau3")


def test_policy_when_only_the_join_is_given_then_the_rest_has_its_default() -> None:
    assert JoinPolicy.read(SECTION) == JoinPolicy(capacity=1000, window_s=60.0, workers=WorkerBounds(min=1, max=8))


def test_policy_when_all_is_given_then_is_taken() -> None:
    options = {"tau2": 0.6, "base": 0.0, "shedding": "quadratic", "trigger": "window", "lasts_s": 0}
    given = {**SECTION, "workers": {"min": 2, "max": 5}, "expected_rows_per_s": 100.0, "options": options}
    policy = JoinPolicy.read(given)
    assert (policy.workers.min, policy.workers.max, policy.expected_rows_per_s) == (2, 5, 100.0)
    assert policy.options.model_dump(include=set(options)) == options


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"options": {"tau4": 0.5}}, r"join\.options\.tau4: got 0.5; allowed: .*tau0, tau1"),
        ({"options": {"tau1": 0.9}}, r"join\.options\.tau0\.\.tau3: .*ascending order"),
        ({"options": {"alpha": 0.8}}, r"join\.options\.alpha: .*\(0, 0.8\)"),
        ({"capacity": 1}, r"join\.capacity"),
        ({"capacity": 10.5}, r"join\.capacity"),
        ({"window_s": -1.0}, r"join\.window_s"),
        ({"workers": {"min": 3, "max": 2}}, r"join\.workers\.min: got 3; allowed: <= workers.max = 2"),
        ({"workers": {"min": 0}}, r"join\.workers\.min"),
        ({"expected_rows_per_s": -1.0}, r"join\.expected_rows_per_s"),
        ({"expected_rows_per_s": float("nan")}, r"join\.expected_rows_per_s"),
        ({"expected_rows_per_s": "many"}, r"join\.expected_rows_per_s"),
    ],
)
def test_wrong_policy_is_refused_with_the_allowed_values(wrong: Mapping[str, Any], message: str) -> None:
    with pytest.raises(MillraceError, match=message):
        JoinPolicy.read({**SECTION, **wrong})


def test_thresholds_when_none_is_given_then_follow_the_papers_advice() -> None:
    options = EsjOptions()
    assert (options.tau0, options.tau1, options.tau2) == (0.2, 0.4, 0.8)
    assert options.tau3 == pytest.approx(0.95)


@given(st.floats(0.001, 0.999))
def test_thresholds_follow_in_order_from_tau2_alone(tau2: float) -> None:
    options = EsjOptions(tau2=tau2)
    assert 0 < options.tau0 < options.tau1 == tau2 / 2 < tau2 < options.tau3 <= 1


@given(st.lists(st.floats(0.01, 1), min_size=4, max_size=4))
def test_thresholds_when_given_then_only_the_ascending_order_is_taken(values: list[float]) -> None:
    taus = dict(zip(TAUS, values, strict=True))
    if all(a < b for a, b in itertools.pairwise(values)):
        assert EsjOptions.read(taus).model_dump(include=set(TAUS)) == taus
        return
    with pytest.raises(MillraceError, match=r"join\.options\.tau0\.\.tau3: got 'tau0=.*ascending order"):
        EsjOptions.read(taus)

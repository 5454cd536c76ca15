from __future__ import annotations

import math
import random
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.control.fair_shares import Claim, fair_shares
from millrace.model.errors import MillraceError
from tests.examples import examples


class Case(NamedTuple):
    needs: dict[str, int]
    weights: dict[str, float]
    total: int
    lows: dict[str, int]
    steps: dict[str, int]


def share(
    needs: Mapping[str, int],
    weights: Mapping[str, float],
    total: int,
    lows: Mapping[str, int] | None = None,
    steps: Mapping[str, int] | None = None,
) -> Mapping[str, int]:
    """Return the shares of pipelines; a weight or step that is missing is 1, and a low 0."""
    lows, steps = lows or {}, steps or {}
    claims = {n: Claim(need, weights.get(n, 1.0), lows.get(n, 0), steps.get(n, 1)) for n, need in needs.items()}
    return fair_shares(claims, total)


@st.composite
def cases(draw: st.DrawFn, most_step: int = 1, equal: bool = False) -> Case:
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True))
    first = draw(st.integers(1, most_step))
    steps = {n: first if equal else draw(st.integers(1, most_step)) for n in names}
    lows = {n: steps[n] * draw(st.integers(0, 3)) for n in names}
    needs = {n: steps[n] * draw(st.integers(0, 12)) for n in names}
    weights = {n: draw(st.sampled_from([0.1, 0.5, 1, 1, 2, 3, 7.3, 100])) for n in names}
    total = sum(lows.values()) + draw(st.integers(0, sum(needs.values()) + 3))
    return Case(needs, weights, total, lows, steps)


def exact(case: Case, total: int) -> Mapping[str, Fraction]:
    """Return the weighted max-min shares, by raising all shares from one event to the next."""
    top = {n: max(case.lows[n], need) for n, need in case.needs.items()}
    weight = {n: Fraction(case.weights[n]) for n in top}
    events = sorted({Fraction(limit[n]) / weight[n] for limit in (case.lows, top) for n in top})

    def at(level: Fraction) -> dict[str, Fraction]:
        return {n: min(max(level * weight[n], Fraction(case.lows[n])), Fraction(top[n])) for n in top}

    level = events[0]
    for following in events[1:]:
        rising = sum((weight[n] for n in top if case.lows[n] <= level * weight[n] < top[n]), Fraction())
        left = total - sum(at(level).values())
        if left < rising * (following - level):
            return at(level + left / rising)
        level = following
    return at(level)


@given(cases())
@examples(200)
def test_shares_are_within_a_slot_of_weighted_max_min(case: Case) -> None:
    shares, wanted = share(*case), exact(case, case.total)
    assert sum(shares.values()) == min(case.total, sum(max(case.lows[n], need) for n, need in case.needs.items()))
    assert all(abs(shares[n] - wanted[n]) < 1 for n in wanted)


@given(cases(most_step=4))
@examples(200)
def test_shares_in_steps_are_within_a_step_of_weighted_max_min(case: Case) -> None:
    unit = math.gcd(*case.steps.values())
    shares, wanted = share(*case), exact(case, case.total - case.total % unit)
    assert sum(shares.values()) <= case.total
    for name, step in case.steps.items():
        assert shares[name] % step == 0
        assert case.lows[name] <= shares[name] <= max(case.lows[name], case.needs[name])
        assert abs(shares[name] - wanted[name]) < step


@given(cases(most_step=4, equal=True))
@examples(200)
def test_larger_total_takes_no_slot_from_a_pipeline(case: Case) -> None:
    fewer, more = share(*case), share(*case._replace(total=case.total + 1))
    assert all(fewer[name] <= more[name] for name in fewer)


@given(cases(most_step=4), st.randoms())
@examples(100)
def test_order_of_pipelines_does_not_matter(case: Case, dice: random.Random) -> None:
    mixed = [dict(dice.sample(list(part.items()), len(part))) for part in (case.needs, case.weights, case.lows)]
    assert share(mixed[0], mixed[1], case.total, mixed[2], case.steps) == share(*case)


@given(cases(), st.integers(2, 9))
@examples(100)
def test_only_the_ratio_of_weights_matters(case: Case, factor: int) -> None:
    whole = {name: round(10 * weight) for name, weight in case.weights.items()}
    scaled = {name: factor * weight for name, weight in whole.items()}
    assert share(case.needs, whole, case.total) == share(case.needs, scaled, case.total)


def test_scarce_slots_follow_the_weights() -> None:
    assert share(dict.fromkeys("abc", 20), {"a": 1, "b": 1, "c": 2}, 12) == {"a": 3, "b": 3, "c": 6}


def test_slots_that_one_pipeline_does_not_need_go_to_the_others_by_weight() -> None:
    assert share({"a": 20, "b": 20, "c": 3}, {"a": 1, "b": 2, "c": 7}, 12) == {"a": 3, "b": 6, "c": 3}


def test_fewest_slots_come_before_the_weights() -> None:
    assert share({"a": 9, "b": 9}, {"a": 1, "b": 3}, 10, {"a": 4}) == {"a": 4, "b": 6}
    assert share({"a": 0, "b": 9}, {}, 5, {"a": 2}) == {"a": 2, "b": 3}


def test_large_weight_gets_no_more_than_its_exact_share_rounded_up() -> None:
    assert share(dict.fromkeys("abc", 9), {"a": 2}, 2) == {"a": 1, "b": 1, "c": 0}
    weights = {"large": 500} | {f"small{i}": 9 for i in range(20)}  # exact shares of 34: 25 and 0.45
    assert share(dict.fromkeys(weights, 99), weights, 34)["large"] == 25


def test_alabama_paradox_of_largest_remainders_does_not_occur() -> None:
    weights = {"a": 6, "b": 6, "c": 2}  # by largest remainder, c has 2 of 10 slots, but 1 of 11
    found = [share(dict.fromkeys(weights, 99), weights, total)["c"] for total in range(9, 15)]
    assert found == sorted(found)


def test_slots_that_rounding_to_steps_leaves_go_to_another_pipeline() -> None:
    assert share({"a": 8, "b": 8}, {}, 12, steps={"a": 4, "b": 4}) == {"a": 8, "b": 4}
    assert share({"a": 8, "b": 9}, {}, 14, steps={"a": 4, "b": 3}) == {"a": 8, "b": 6}
    assert share({"a": 8, "b": 8}, {}, 13, steps={"a": 4, "b": 2}) == {"a": 4, "b": 6}


def test_no_pipelines_share_nothing() -> None:
    assert share({}, {}, 4) == {}


def test_total_below_the_fewest_slots_is_an_error() -> None:
    with pytest.raises(MillraceError) as error:
        share({"a": 4, "b": 4}, {}, 3, {"a": 2, "b": 2})
    assert (error.value.key, error.value.value) == ("guards.max_total_slots", 3)


@pytest.mark.parametrize(
    ("need", "weight", "low", "step", "key"),
    [
        (-1, 1.0, 0, 1, "a.need"),
        (3, 1.0, 0, 2, "a.need"),
        (4, 0.0, 0, 1, "a.priority"),
        (4, math.nan, 0, 1, "a.priority"),
        (4, math.inf, 0, 1, "a.priority"),
        (4, 1.0, -1, 1, "a.slots.min"),
        (4, 1.0, 1, 2, "a.slots.min"),
        (4, 1.0, 0, 0, "a.step"),
    ],
)
def test_impossible_pipeline_is_an_error(need: int, weight: float, low: int, step: int, key: str) -> None:
    with pytest.raises(MillraceError) as error:
        share({"a": need}, {"a": weight}, 9, {"a": low}, {"a": step})
    assert error.value.key == key

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from millrace.optimizers.conttune.budget import Claim, share_budget, sustained_share
from tests.examples import examples

SCALE = 10**8
"""Integer units per share of 1: needs are below 1,000, so different shares differ by more than 100 units."""


class App(NamedTuple):
    """An app with whole numbers of rows per second, by level."""

    need: int
    rows: Sequence[int]
    low: int
    step: int

    def claim(self, name: str) -> Claim:
        levels = range(self.low, self.low + self.step * len(self.rows), self.step)
        return Claim(name, self.need, dict(zip(levels, self.rows, strict=True)).__getitem__, *self.bounds, self.step)

    @property
    def bounds(self) -> tuple[int, int]:
        return self.low, self.low + self.step * (len(self.rows) - 1)

    def share(self, slots: int) -> Fraction:
        rows = self.rows[(slots - self.low) // self.step]
        return min(Fraction(1), Fraction(rows, self.need)) if self.need else Fraction(1)


def graph(*apps: App) -> list[Claim]:
    return [app.claim(f"app{i}") for i, app in enumerate(apps)]


@st.composite
def apps(draw: st.DrawFn) -> App:
    step = draw(st.integers(1, 4))
    rows = draw(st.lists(st.integers(0, 300), min_size=1, max_size=8))
    return App(draw(st.integers(0, 300)), rows, step * draw(st.integers(1, 3)), step)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Claim], int]:
    found = graph(*draw(st.lists(apps(), min_size=1, max_size=5)))
    return found, draw(st.integers(sum(c.low for c in found), sum(c.high for c in found) + 3))


def random_app(dice: random.Random) -> App:
    """Return an app whose throughput is concave, rises anyhow, or is noisy, in equal parts."""
    step, levels, kind = dice.choice([1, 1, 2, 3, 4]), dice.randint(1, 12), dice.choice(["concave", "rising", "noisy"])
    gains = [dice.randint(0, 60) for _ in range(levels)]
    rows = list(accumulate(sorted(gains, reverse=True) if kind == "concave" else gains))
    if kind == "noisy":
        rows = [max(0, r + dice.randint(-50, 50)) for r in rows]
    return App(dice.choice([0, *(dice.randint(1, 600) for _ in range(9))]), rows, step * dice.randint(1, 3), step)


def optimum(found: Sequence[App], budget: int) -> tuple[int, int]:
    """Return the largest share that CP-SAT finds for the whole graph, in units, and the fewest slots that give it."""
    model = cp_model.CpModel()
    least, used = model.new_int_var(0, SCALE, "least"), []
    for app in found:
        levels = range(app.bounds[0], app.bounds[1] + 1, app.step)
        chosen = [model.new_bool_var("") for _ in levels]
        model.add_exactly_one(chosen)
        model.add(least <= sum(c * math.floor(SCALE * app.share(p)) for c, p in zip(chosen, levels, strict=True)))
        used.append(sum(c * p for c, p in zip(chosen, levels, strict=True)))
    model.add(sum(used) <= budget)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    model.maximize(least)
    assert solver.solve(model) == cp_model.OPTIMAL
    share = round(solver.objective_value)
    model.add(least >= share)
    model.minimize(sum(used))
    assert solver.solve(model) == cp_model.OPTIMAL
    return share, round(solver.objective_value)


def greedy(claims: Sequence[Claim], budget: int) -> float:
    """Return the share if every step goes to the app with the smallest share."""
    slots = {claim.app: claim.low for claim in claims}
    while True:
        weakest = min(claims, key=lambda c: sustained_share([c], slots))
        share = sustained_share([weakest], slots)
        slots[weakest.app] += weakest.step
        if share == 1 or slots[weakest.app] > weakest.high or sum(slots.values()) > budget:
            return share


@pytest.mark.parametrize("seed", range(200))
def test_share_and_slots_equal_the_optimum_of_cp_sat(seed: int) -> None:
    dice = random.Random(seed)
    found = [random_app(dice) for _ in range(dice.randint(1, 6))]
    lowest, highest = (sum(app.bounds[i] for app in found) for i in (0, 1))
    budget = dice.randint(lowest, highest + 1)

    slots = share_budget(graph(*found), budget)

    share = min(app.share(p) for app, p in zip(found, slots.values(), strict=True))
    assert (math.floor(SCALE * share), sum(slots.values())) == optimum(found, budget)


@given(graphs())
@examples(200)
def test_slots_are_allowed_levels_within_the_budget(posed: tuple[list[Claim], int]) -> None:
    claims, budget = posed
    slots = share_budget(claims, budget)
    assert sum(slots.values()) <= budget
    assert [claim.app for claim in claims] == list(slots)
    assert all(slots[claim.app] in claim.levels for claim in claims)


@given(graphs())
@examples(200)
def test_steps_to_the_weakest_app_give_the_same_share(posed: tuple[list[Claim], int]) -> None:
    claims, budget = posed
    assert sustained_share(claims, share_budget(claims, budget)) == greedy(claims, budget)


@given(graphs())
@examples(200)
def test_share_falls_if_any_app_loses_a_step(posed: tuple[list[Claim], int]) -> None:
    claims, budget = posed
    slots = share_budget(claims, budget)
    for claim in claims:
        if slots[claim.app] > claim.low:
            fewer = {**slots, claim.app: slots[claim.app] - claim.step}
            assert sustained_share(claims, fewer) < sustained_share(claims, slots)


@given(graphs())
@examples(200)
def test_larger_budget_takes_no_slot_from_an_app(posed: tuple[list[Claim], int]) -> None:
    claims, budget = posed
    before, after = share_budget(claims, budget), share_budget(claims, budget + 1)
    assert all(before[app] <= after[app] for app in before)


@given(graphs(), st.randoms())
@examples(50)
def test_order_of_apps_does_not_matter(posed: tuple[list[Claim], int], dice: random.Random) -> None:
    claims, budget = posed
    assert share_budget(dice.sample(claims, len(claims)), budget) == share_budget(claims, budget)


CHAIN = [
    Claim("clean", 100.0, lambda p: 50.0 * p, 1, 4),
    Claim("enrich", 100.0, lambda p: 12.5 * p, 1, 8),
    Claim("delays", 50.0, lambda p: 25.0 * p, 1, 4),
]


@pytest.mark.parametrize(
    ("budget", "slots", "share"),
    [(3, (1, 1, 1), 0.125), (9, (2, 5, 2), 0.625), (8, (1, 4, 1), 0.5), (12, (2, 8, 2), 1.0), (99, (2, 8, 2), 1.0)],
)
def test_chain_gets_slots_for_the_same_share_of_every_need(budget: int, slots: tuple[int, ...], share: float) -> None:
    found = share_budget(CHAIN, budget)
    assert (tuple(found.values()), sustained_share(CHAIN, found)) == (slots, share)


def test_apps_get_no_more_than_an_app_at_its_maximum_can_use() -> None:
    stuck = Claim("stuck", 100.0, lambda p: 10.0 * p, 1, 3)
    assert share_budget([*CHAIN, stuck], 99) == {"clean": 1, "enrich": 3, "delays": 1, "stuck": 3}


def test_app_without_need_gets_its_fewest_slots() -> None:
    idle = Claim("idle", 0.0, lambda p: 0.0, 2, 8, 2)
    assert share_budget([idle, *CHAIN], 99)["idle"] == 2


@pytest.mark.parametrize("worse", [0.0, -5.0, math.nan])
def test_level_that_measured_less_than_a_lower_one_counts_as_the_lower_one(worse: float) -> None:
    rows: Mapping[int, float] = {1: 10.0, 2: worse, 3: 30.0}
    claims = [Claim("noisy", 20.0, rows.__getitem__, 1, 3)]
    assert share_budget(claims, 2) == {"noisy": 1}
    assert sustained_share(claims, {"noisy": 2}) == 0.5
    assert share_budget(claims, 3) == {"noisy": 3}


def test_no_apps_need_no_slots() -> None:
    assert (share_budget([], 0), sustained_share([], {})) == ({}, 1.0)

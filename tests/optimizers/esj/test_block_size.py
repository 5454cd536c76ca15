from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.optimizers.esj.block_size import block_size, cost, fits

ALPHAS = st.floats(0.01, 0.79)
CAPACITIES = st.integers(2, 400)


def brute_force(held: float, capacity: int, alpha: float) -> float | None:
    """Least J of all block sizes that fit; None if none does."""
    costs = [cost(b, held, alpha) for b in range(1, capacity + 1) if fits(b, held, capacity)]
    return min(costs) if costs else None


@given(st.floats(0, 1.2), CAPACITIES, ALPHAS)
def test_optimum_is_beaten_by_no_other_size(load: float, capacity: int, alpha: float) -> None:
    held = load * capacity
    found = block_size(held, capacity, alpha)
    best = brute_force(held, capacity, alpha)
    assert fits(found, held, capacity) == (best is not None)
    if best is None:
        assert found == 1
    else:
        assert cost(found, held, alpha) == pytest.approx(best, rel=1e-12)


@given(st.floats(0.001, 1), CAPACITIES, ALPHAS)
def test_optimum_when_the_literal_one_fits_then_costs_no_more(load: float, capacity: int, alpha: float) -> None:
    held = load * capacity
    ours, literal = block_size(held, capacity, alpha), block_size(held, capacity, alpha, "literal")
    if fits(literal, held, capacity):
        assert fits(ours, held, capacity)
        assert cost(ours, held, alpha) <= cost(literal, held, alpha) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("held", "alpha", "tuples", "feasible"),
    [
        (100.0, 0.5, 100, True),  # case 1: k = 1
        (600.0, 0.5, 300, True),  # case 2: 600 / ceil(600 / 400)
        (900.0, 0.75, 100, True),  # case 2: 900 / ceil(900 / 100)
        (800.0, 0.75, 461, False),  # case 1 forgets block + held <= W
        (0.5, 0.5, 0, False),  # a small load
        (1000.0, 0.5, 0, False),  # beta2: the limit of a division by zero
        (1000.5, 0.5, 1, False),  # beyond
    ],
)
def test_literal_gives_the_theorems_size_in_each_case(held: float, alpha: float, tuples: int, feasible: bool) -> None:
    found = block_size(held, 1000, alpha, "literal")
    assert (found, fits(found, held, 1000)) == (tuples, feasible)


@given(st.floats(0, 1e300), st.integers(2, 10**9), ALPHAS, st.sampled_from(["optimum", "literal"]))
def test_size_when_the_load_is_anything_then_is_a_whole_number(
    held: float, capacity: int, alpha: float, method: str
) -> None:
    found = block_size(held, capacity, alpha, method)
    assert isinstance(found, int) and found >= (method == "optimum")

"""Problems without flows for the balancer's tests: random small ones, all placements of tiny ones, grid-like ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from hypothesis import strategies as st

from millrace.optimizers.albic.problem import Caps, Problem
from millrace.optimizers.arrays import Ints


def problem(
    load: Sequence[float],
    node: Sequence[int],
    nodes: int,
    budget: float = np.inf,
    *,
    removed: Sequence[int] = (),
    capacity: Sequence[float] | None = None,
    cost: Sequence[float] | None = None,
    caps: Caps | None = None,
) -> Problem:
    marked = np.zeros(nodes, dtype=bool)
    marked[list(removed)] = True
    return Problem(
        load=np.array(load, dtype=float),
        node=np.array(node, dtype=np.intp),
        capacity=np.ones(nodes) if capacity is None else np.array(capacity, dtype=float),
        removed=marked,
        cost=np.ones(len(load)) if cost is None else np.array(cost, dtype=float),
        budget=float(budget),
        caps=caps,
    )


def uneven(nodes: int, each: int, budget: float, seed: int, removed: Sequence[int] = ()) -> Problem:
    """Nodes with the same number of groups, 50 points on average, a fifth of them 20 points off."""
    rng = np.random.default_rng(seed)
    load = 50 / each * rng.uniform(0.95, 1.05, nodes * each)
    node = np.repeat(np.arange(nodes), each)
    for n, i in enumerate(rng.permutation(nodes)[: nodes // 5]):
        load[node == i] *= 1.4 if n % 2 else 0.6
    return problem(load.tolist(), node.tolist(), nodes, budget, removed=removed)


LOADS = st.sampled_from([0.0, 0.0, 1.0, 2.0, 2.5, 3.0, 5.0, 7.5, 12.0, 40.0, 95.0])
"""Few values, so that there are ties and groups of no load; a giant, and one that overloads a node."""


@st.composite
def problems(draw: st.DrawFn, groups: int = 12, nodes: int = 5) -> Problem:
    n = draw(st.integers(1, nodes))
    k = draw(st.integers(0, groups))
    marked = draw(st.lists(st.integers(1, n - 1), max_size=n - 1)) if n > 1 else []
    capacity = draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=n, max_size=n)) if draw(st.booleans()) else None
    cost = draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=k, max_size=k)) if draw(st.booleans()) else None
    lowest = -1 if draw(st.booleans()) else 0
    return problem(
        draw(st.lists(LOADS, min_size=k, max_size=k)),
        draw(st.lists(st.integers(lowest, n - 1), min_size=k, max_size=k)),
        n,
        draw(st.sampled_from([0.0, 1.0, 2.0, 3.5, 6.0, np.inf])),
        removed=marked,
        capacity=capacity,
        cost=cost,
        caps=draw(caps(k, n)) if draw(st.booleans()) else None,
    )


@st.composite
def caps(draw: st.DrawFn, groups: int, nodes: int) -> Caps:
    count = draw(st.integers(1, 2))
    use = [draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=groups, max_size=groups)) for _ in range(count)]
    limit = [draw(st.lists(st.sampled_from([1.0, 3.0, 6.0]), min_size=nodes, max_size=nodes)) for _ in range(count)]
    return Caps(np.array(use).reshape(count, groups), np.array(limit).reshape(count, nodes))


@st.composite
def pins(draw: st.DrawFn, posed: Problem) -> Ints:
    nodes = st.integers(0, posed.nodes - 1)
    values = draw(st.lists(st.one_of(st.just(-1), nodes), min_size=posed.groups, max_size=posed.groups))
    return np.array(values, dtype=np.intp)


def used(posed: Problem, node: Ints) -> np.ndarray:
    """Use of the other resources under a placement, shape (R, N)."""
    if posed.caps is None:
        return np.zeros((0, posed.nodes))
    on = node >= 0
    rows = [np.bincount(node[on], weights=row[on], minlength=posed.nodes) for row in posed.caps.load]
    return np.array(rows).reshape(len(rows), posed.nodes)


def least_distance(posed: Problem, pinned: Ints | None = None) -> float:
    """The least load distance of all placements that the budget, the pins and removed nodes allow."""
    found = np.inf
    for choice in product(range(posed.nodes), repeat=posed.groups):
        node = np.array(choice, dtype=np.intp)
        moved = node != posed.node
        if posed.removed[node[moved]].any() or posed.spent(node) > posed.budget + 1e-9:
            continue
        if pinned is not None and ((pinned >= 0) & (node != pinned)).any():
            continue
        found = min(found, posed.distance(node))
    return found


def assert_valid(posed, plan):
    """Every group has a node, nothing is moved onto removed nodes, budget and caps hold, the bound is one."""
    assert plan.node.shape == posed.node.shape
    assert ((plan.node >= 0) & (plan.node < posed.nodes)).all()
    assert not posed.removed[plan.node[plan.node != posed.node]].any()
    assert posed.spent(plan.node) <= posed.budget * (1 + 1e-9) + 1e-9
    assert 0 <= plan.bound <= posed.distance(plan.node) + 1e-9
    if posed.caps is not None and (posed.node >= 0).all():
        before, after = used(posed, posed.node), used(posed, plan.node)
        assert (after <= np.maximum(posed.caps.limit, before) + 1e-6).all()

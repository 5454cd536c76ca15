"""Problems with flows for tests: small jobs whose best placement is known, and random ones for properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import strategies as st

from millrace.optimizers.albic.problem import Flows, Problem
from millrace.optimizers.arrays import Ints


def ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.intp)


def flows(edges: Sequence[tuple[int, int, float]], saved: float = 0.5) -> Flows:
    """Edges as (producer, consumer, rate); together they save 2 ``saved`` points per row."""
    if not edges:
        return Flows()
    rate = np.array([e[2] for e in edges], dtype=float)
    return Flows(ints([e[0] for e in edges]), ints([e[1] for e in edges]), rate, 2 * rate * saved)


def problem(
    node: Sequence[int],
    *,
    nodes: int,
    load: float | Sequence[float] = 5.0,
    edges: Sequence[tuple[int, int, float]] = (),
    saved: float = 0.5,
    budget: float = 2.0,
    removed: Sequence[int] = (),
    operator: Sequence[int] = (),
) -> Problem:
    groups = len(node)
    marked = np.zeros(nodes, dtype=bool)
    marked[list(removed)] = True
    return Problem(
        load=np.full(groups, load) if isinstance(load, float) else np.array(load, dtype=float),
        node=ints(node),
        capacity=np.ones(nodes),
        removed=marked,
        cost=np.ones(groups),
        budget=budget,
        operator=ints(operator) if len(operator) else ints([0] * groups),
        flows=flows(edges, saved),
    )


def pairs(count: int, nodes: int, budget: float, seed: int = 0) -> Problem:
    """Two operators of ``count`` groups, one-to-one, no pair together; together, a pair does half the work."""
    rng = np.random.default_rng(seed)
    first = np.arange(count) % nodes
    further = 1 + (np.arange(count) // nodes + rng.integers(nodes - 1)) % (nodes - 1)  # the same number on every node
    node = np.concatenate([first, (first + further) % nodes])
    load = rng.uniform(4.5, 5.5, 2 * count)
    rate = np.minimum(load[:count], load[count:])
    producer = np.arange(count)
    return Problem(
        load=load,
        node=node.astype(np.intp),
        capacity=np.ones(nodes),
        removed=np.zeros(nodes, dtype=bool),
        cost=np.ones(2 * count),
        budget=budget,
        operator=np.repeat(ints([0, 1]), count),
        flows=Flows(producer, producer + count, rate, rate),
    )


def chains(chains: int, length: int, nodes: int, seed: int = 0, budget: float = 2.0) -> Problem:
    """Operators of ``chains`` groups each, connected group by group in a row, scattered over the nodes."""
    groups = chains * length
    edges = [(k, k + chains, 1.0) for k in range(groups - chains)]
    node = np.random.default_rng(seed).permutation(groups) % nodes
    operator = np.arange(groups) // chains
    return problem(node, nodes=nodes, load=3.0, edges=edges, saved=1.0, budget=budget, operator=operator)


def collocation(given: Problem, node: Ints) -> float:
    """The share of all rows that stay within a node, 0..1."""
    return float(given.flows.rate[given.flows.near(node)].sum() / given.flows.rate.sum())


def after(given: Problem, node: Ints) -> Problem:
    """The same cluster a period later, with this placement."""
    return replace(given, node=node)


@st.composite
def problems(draw: st.DrawFn, most_groups: int = 14, most_nodes: int = 4, unplaced: bool = True) -> Problem:
    """Any small problem: unequal nodes, marked ones, states of any size, flows that save at most the load."""
    nodes = draw(st.integers(1, most_nodes))
    groups = draw(st.integers(1, most_groups))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    removed = rng.random(nodes) < draw(st.sampled_from([0.0, 0.4]))
    removed[rng.integers(nodes)] = False
    node = rng.integers(0, nodes, groups)
    if unplaced and draw(st.booleans()):
        node[rng.random(groups) < 0.2] = -1
    dense = draw(st.sampled_from([0.0, 0.15, 0.6]))
    producer, consumer = np.nonzero(np.triu(rng.random((groups, groups)) < dense, 1))
    rate = rng.uniform(0, 10, len(producer)) * (rng.random(len(producer)) < 0.8)
    load = rng.choice([0.0, 1.0, 5.0, 30.0], groups) * rng.uniform(0.5, 1.5, groups)
    whole = np.bincount(consumer, rate, groups)
    share = np.min(load[whole > 0] / whole[whole > 0]) if (whole > 0).any() else 0.0
    return Problem(
        load=load,
        node=node.astype(np.intp),
        capacity=rng.choice([0.5, 1.0, 2.0], nodes) if draw(st.booleans()) else np.ones(nodes),
        removed=removed,
        cost=rng.uniform(0.5, 3, groups) if draw(st.booleans()) else np.ones(groups),
        budget=draw(st.sampled_from([0.0, 1.0, 2.0, 4.0, float("inf")])),
        operator=rng.integers(0, 3, groups).astype(np.intp),
        flows=Flows(
            producer.astype(np.intp),
            consumer.astype(np.intp),
            rate,
            rate * share * draw(st.sampled_from([0.0, 0.5, 1.0])),
        ),
    )


def placements(given: Problem) -> list[Ints]:
    """All placements within the budget that move nothing onto a marked node."""
    choices = []
    for k in range(given.groups):
        stay = [] if given.node[k] < 0 else [int(given.node[k])]
        choices.append(sorted({*stay, *(int(j) for j in given.kept)}))
    found = (ints(node) for node in product(*choices))
    return [node for node in found if given.spent(node) <= given.budget + 1e-9]

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.placement import Flows, PartitionLoads, Speeds
from millrace.optimizers.albic import optimal_placement
from millrace.optimizers.albic.cluster import Cluster, cluster
from millrace.optimizers.albic.optimal_placement import LEAST_GAIN, improve, is_small
from millrace.optimizers.albic.options import PlacementOptions
from millrace.optimizers.albic.planning import plan_placement
from millrace.optimizers.arrays import Ints
from tests.examples import examples
from tests.optimizers.albic.partition_loads import groups

NOTHING = np.zeros(0, dtype=np.intp)
LOADS = st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0]), min_size=2, max_size=4)


def made(measured: PartitionLoads, executors: int, cores: int = 1, **options: Any) -> Cluster:
    return cluster(measured, measured.executor, executors, cores, PlacementOptions.read(options))


def planned(of: Cluster, fixed: Ints = NOTHING) -> Ints:
    return plan_placement(of, "balancer", fixed, 0).node


def shortest_s(of: Cluster, node: Ints) -> float:
    """Return the time of the shortest placement within the budget, in seconds, by trying all."""
    every = (np.array(at) for at in product(of.problem.kept.tolist(), repeat=of.problem.groups))
    budget = max(of.problem.budget, of.problem.spent(node))
    return min(of.batch_s(at) for at in every if of.problem.spent(at) <= budget)


@st.composite
def small(draw: st.DrawFn) -> Cluster:
    first, second = draw(LOADS), [1 + load for load in draw(LOADS)]  # more than all of the first one saves
    n, executors = len(first) + len(second), draw(st.integers(1, 3))
    ends = draw(st.lists(st.sampled_from(list(product(range(len(first)), range(len(first), n)))), unique=True))
    flows = Flows(tuple(a for a, _ in ends), tuple(b for _, b in ends), (1_000_000,) * len(ends), 0.2)
    at = draw(st.lists(st.integers(-1, executors - 1), min_size=n, max_size=n))
    speeds = Speeds((0,), (draw(st.sampled_from([0.5, 1.0])),))
    measured = groups(first, at, second, flows=flows, speeds=speeds)
    return made(measured, executors, draw(st.integers(1, 2)), budget=draw(st.integers(0, 4)))


@given(of=small())
@examples(60)
def test_proven_optimum_matches_trying_all_placements(of: Cluster) -> None:
    node = planned(of)
    found, proven = improve(of, node, NOTHING, seed=0)
    assert of.batch_s(found) <= of.batch_s(node)
    assert of.problem.spent(found) <= max(of.problem.budget, of.problem.spent(node))
    assert not of.problem.removed[found].any()
    if proven:
        assert of.batch_s(found) * (1 - LEAST_GAIN) <= shortest_s(of, node) + 1e-5
    assert proven or of.cores > 1


def test_budget_is_spent_where_it_saves_most_over_all_stages() -> None:
    """The stage that loses most by its placement gains least by one move: its longest task stays alone."""
    of = made(groups([6, 6, 6, 1], [0, 0, 0, 0, 1, 1, 1, 1], second=[5, 5, 1, 1]), 2, budget=1)
    found, proven = improve(of, of.problem.node, NOTHING, seed=0)
    assert proven and of.problem.spent(found) == 1 and of.batch_s(found) == shortest_s(of, found)


@pytest.mark.parametrize("seed", range(3))
def test_plan_within_a_budget_is_shorter_than_stages_one_by_one_find_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    at = tuple(int(i) for i in rng.integers(0, 4, 32))
    of = made(groups(rng.lognormal(0, 1, 16), at, second=rng.lognormal(0, 1, 16)), 4)
    node = planned(of)
    found, _ = improve(of, node, NOTHING, seed=0)
    assert of.batch_s(found) <= of.batch_s(node) and of.problem.spent(found) <= 8
    if seed == 0:
        assert (found == improve(of, node, NOTHING, seed=0)[0]).all()


def test_resting_groups_stay_and_no_worker_exceeds_its_state_limit() -> None:
    sizes = (60_000_000, 10_000_000, 10_000_000, 10_000_000) * 2
    measured = groups([4, 3, 2, 2], [0, 0, 0, 0, 0, 0, 1, 1], second=[1, 1, 5, 5], state_bytes=sizes)
    of = made(measured, 2, max_state_mb=100.0)
    fixed = np.array([0, 6])
    node = planned(of, fixed)
    found, _ = improve(of, node, fixed, seed=0)
    assert (found[fixed] == of.problem.node[fixed]).all()
    assert np.bincount(found, np.array(sizes) / 1e6, 2).max() <= 100.0


def test_cheapest_of_equally_short_placements_is_found() -> None:
    of = made(groups([1, 1, 1, 1], [0, 0, 1, 1]), 2)
    found, proven = improve(of, np.array([1, 1, 0, 0]), NOTHING, seed=0)
    assert proven and of.batch_s(found) == 2
    of = made(groups([2, 1, 1, 2], [0, 0, 0, 0]), 2)
    found, proven = improve(of, np.array([1, 1, 1, 0]), NOTHING, seed=0)
    assert proven and of.batch_s(found) == 3 and of.problem.spent(found) == 2


def test_large_clusters_are_left_to_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    of = made(groups([1, 1, 1, 1], [0, 0, 1, 1]), 2)
    assert is_small(of)
    monkeypatch.setattr(optimal_placement, "LARGEST", 7)
    assert not is_small(of)

"""Plans over all stages: balance, collocation over several plans, and the published algorithm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from millrace.model.placement import Flows, PartitionLoads
from millrace.optimizers.albic.cluster import Cluster, cluster
from millrace.optimizers.albic.options import PlacementOptions
from millrace.optimizers.albic.planning import plan_placement, whole_problem
from millrace.optimizers.arrays import Ints
from tests.optimizers.albic.partition_loads import groups

NONE: Ints = np.zeros(0, dtype=np.intp)
PAIRS, EXECUTORS = 20, 4


def paired(budget: float, s_per_mb: float | None = 1.0) -> Cluster:
    """Two stages of equal groups, one to one, no pair on one executor; fetching takes as long as the work."""
    flows = Flows(tuple(range(PAIRS)), tuple(range(PAIRS, 2 * PAIRS)), (1_000_000,) * PAIRS, s_per_mb)
    at = [*(k % EXECUTORS for k in range(PAIRS)), *((k + 1) % EXECUTORS for k in range(PAIRS))]
    measured: PartitionLoads = groups([1.0] * PAIRS, at, second=[2.0] * PAIRS, flows=flows)
    return cluster(measured, measured.executor, EXECUTORS, 1, PlacementOptions.read({"budget": budget}))


def after(of: Cluster, node: Ints) -> Cluster:
    return replace(of, problem=replace(of.problem, node=node))


def test_plans_too_small_to_shorten_the_batch_add_up_until_all_pairs_have_met() -> None:
    of = paired(budget=2)
    assert of.batch_s(plan_placement(of, "balancer", NONE, 0).node) == of.batch_s(of.problem.node) == 15
    for _ in range(PAIRS // 2 + 1):
        plan = plan_placement(of, "joint", NONE, 0)
        assert of.problem.spent(plan.node) <= 2
        of = after(of, plan.node)
    assert of.problem.flows.near_share(of.problem.node) == 1.0
    assert of.batch_s(of.problem.node) == of.bound_s() == 10


def test_each_stage_is_even_though_chains_stay_whole() -> None:
    parts, executors = 32, 4
    rng = np.random.default_rng(0)
    first, second = rng.lognormal(-2, 0.7, parts) + 0.05, rng.lognormal(-2, 0.7, parts) + 0.05
    flows = Flows(tuple(range(parts)), tuple(range(parts, 2 * parts)), (100_000,) * parts, 0.5)
    at = rng.integers(0, executors, 2 * parts).tolist()
    measured = groups(first.tolist(), at, second=second.tolist(), flows=flows)
    of = cluster(measured, measured.executor, executors, 1, PlacementOptions.read({"budget": float("inf")}))
    node = plan_placement(of, "joint", NONE, 0).node
    assert of.problem.flows.near_share(node) == 1.0
    assert of.batch_s(node) <= 1.05 * of.bound_s() < of.batch_s(plan_placement(of, "balancer", NONE, 0).node)


@pytest.mark.parametrize("s_per_mb", [None, 0.01])
def test_pairs_are_left_apart_if_that_saves_next_to_nothing(s_per_mb: float | None) -> None:
    of = paired(budget=8, s_per_mb=s_per_mb)
    assert (plan_placement(of, "joint", NONE, 0).node == plan_placement(of, "balancer", NONE, 0).node).all()


def test_published_algorithm_asks_for_one_pair_and_solves_its_program() -> None:
    of = paired(budget=2)
    plan = plan_placement(of, "albic", NONE, 0)
    assert of.problem.flows.near(plan.node).sum() >= 1 and of.problem.spent(plan.node) <= 2
    assert plan.stage.startswith(("optimal", "feasible")) and ", 1 pairs asked, maxPL " in plan.stage


@pytest.mark.parametrize("method", ["joint", "albic", "balancer"])
def test_resting_groups_stay_and_every_plan_repeats(method: str) -> None:
    of, fixed = paired(budget=4), np.arange(PAIRS, PAIRS + 10)
    node = plan_placement(of, method, fixed, 1).node
    assert (node[fixed] == of.problem.node[fixed]).all() and of.problem.spent(node) <= 4
    assert (node == plan_placement(of, method, fixed, 1).node).all()


def test_one_problem_has_all_stages_and_what_flows_save_of_each_receiver() -> None:
    of = paired(budget=4, s_per_mb=5.0)  # more than a group takes altogether
    whole = whole_problem(of, np.ones(2 * PAIRS, dtype=bool))
    assert whole.loads(whole.node).mean() == pytest.approx(50) and len(set(whole.operator.tolist())) == 2
    np.testing.assert_allclose(whole.flows.saved, whole.load[whole.flows.consumer])

import numpy as np
import pytest

from millrace.optimizers.albic import balance_bound
from millrace.optimizers.albic.balance_bound import bound_of
from millrace.optimizers.albic.balance_problem import balance_problem
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.albic.subset_sums import SubsetSums, affordable
from tests.optimizers.albic.instances import least_distance, problem, uneven


def lower_bound(posed: Problem) -> float:
    return bound_of(balance_problem(posed))


def test_bound_when_no_move_is_allowed_then_is_the_present_distance():
    posed = problem([10.0, 20.0, 30.0], [0, 1, 2], 3, 0)

    assert lower_bound(posed) == pytest.approx(posed.distance(posed.node), abs=1e-4)


def test_bound_when_budget_is_endless_and_groups_small_then_is_zero():
    assert lower_bound(uneven(5, 20, np.inf, 0)) == 0


def test_bound_when_one_group_is_a_giant_then_is_what_it_forces():
    posed = problem([90.0, 5.0, 5.0], [0, 1, 1], 2, np.inf)

    assert lower_bound(posed) == pytest.approx(40.0)


def test_bound_when_a_giant_fits_a_bigger_node_then_is_its_excess_there():
    posed = problem([90.0, 5.0, 5.0], [0, 1, 1], 2, np.inf, capacity=[1.0, 2.0])

    assert lower_bound(posed) == pytest.approx(45.0 - 100 / 3, abs=1e-3)


def test_bound_when_groups_are_fewer_than_nodes_then_some_node_is_empty():
    posed = problem([10.0, 10.0], [0, 1], 3, np.inf)

    assert lower_bound(posed) == pytest.approx(20 / 3, abs=1e-4)


def test_bound_when_draining_exceeds_the_budget_then_is_the_shortage():
    posed = problem([10.0] * 8, [0, 0, 1, 1, 2, 2, 2, 2], 3, 1, removed=[2])

    # of 40 points one group of 10 arrives: 50 on two nodes that should have 80
    assert lower_bound(posed) >= 15 - 1e-3
    assert lower_bound(posed) <= least_distance(posed)


def test_bound_when_prices_differ_then_counts_what_the_budget_buys():
    cheap = problem([10.0] * 4, [0] * 4, 2, 2, cost=[1.0] * 4)
    dear = problem([10.0] * 4, [0] * 4, 2, 2, cost=[1.0, 3.0, 3.0, 3.0])

    assert lower_bound(cheap) == 0
    assert lower_bound(dear) > 5
    assert lower_bound(dear) <= least_distance(dear) + 1e-9


def test_bound_when_only_some_sums_exist_then_uses_that(monkeypatch):
    # node 0 is 20 above the mean and has groups of 4.2 and of 2.5: no five of them weigh about 20
    load = [4.2] * 12 + [2.5] * 8 + [2.5] * 12 + [2.5] * 20
    posed = problem(load, [0] * 20 + [1] * 12 + [2] * 20, 3, 5)
    fine = lower_bound(posed)
    monkeypatch.setattr(balance_bound, "SMALL", 0)

    assert fine > lower_bound(posed) + 0.1


def test_sums_when_a_pair_is_possible_then_returns_its_deviation():
    sums = SubsetSums([np.array([4.0, 3.0]), np.array([1.0])], np.array([3.0, -3.0]), np.ones(2), np.array([2, 1]), 2)

    assert sums.delta(0, 0, 0) == pytest.approx(3.0, abs=0.01)
    assert sums.delta(0, 1, 0) == pytest.approx(0.0, abs=0.01)
    assert sums.delta(1, 0, 1) == pytest.approx(0.0, abs=0.01)
    assert sums.delta(0, 3, 0) == np.inf


def test_affordable_when_outs_trade_for_ins_then_takes_the_cheapest_mix():
    options = [[(2, 0), (1, 1)], [(2, 0), (1, 1)]]

    assert affordable(options, 4, 0)
    assert affordable(options, 3, 1)
    assert not affordable(options, 3, 0)
    assert not affordable(options, 1, 5)

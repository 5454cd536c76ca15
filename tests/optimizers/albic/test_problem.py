from dataclasses import replace

import numpy as np
import pytest

from millrace.model.errors import MillraceError
from millrace.optimizers.albic.problem import Caps, Flows
from tests.optimizers.albic.instances import problem

GOOD = problem([10.0, 20.0, 30.0], [0, 1, 1], 3, 2, capacity=[1.0, 2.0, 1.0])


def flows(*edges):
    producer, consumer, rate, saved = zip(*edges, strict=True)
    return Flows(np.array(producer), np.array(consumer), np.array(rate, dtype=float), np.array(saved, dtype=float))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"load": np.array([1.0, -1.0, 1.0])}, "load[1]"),
        ({"load": np.array([1.0, np.nan, 1.0])}, "load[1]"),
        ({"load": np.array([1.0, np.inf, 1.0])}, "load[1]"),
        ({"node": np.array([0, 1, 3])}, "node[2]"),
        ({"node": np.array([0, 1, -2])}, "node[2]"),
        ({"node": np.array([0, 1])}, "node"),
        ({"capacity": np.array([1.0, 0.0, 1.0])}, "capacity[1]"),
        ({"cost": np.array([1.0, 0.0, 1.0])}, "cost[1]"),
        ({"budget": -1.0}, "budget"),
        ({"budget": float("nan")}, "budget"),
        ({"removed": np.array([True, True, True])}, "removed"),
        ({"operator": np.array([0, 1])}, "operator"),
        ({"flows": flows((0, 3, 1, 1))}, "flows.consumer[0]"),
        ({"flows": flows((-1, 1, 1, 1))}, "flows.producer[0]"),
        ({"flows": flows((0, 1, -1, 1))}, "flows.rate[0]"),
        ({"flows": flows((0, 1, 1, np.nan))}, "flows.saved[0]"),
        ({"flows": flows((0, 1, 1, 1), (0, 1, 2, 2))}, "flows"),
        ({"caps": Caps(np.array([[1.0, 1.0, -1.0]]), np.ones((1, 3)))}, "caps.load[0, 2]"),
        ({"caps": Caps(np.ones((1, 3)), np.array([[1.0, 0.0, 1.0]]))}, "caps.limit[0, 1]"),
        ({"caps": Caps(np.ones((1, 2)), np.ones((1, 3)))}, "caps.load"),
    ],
)
def test_problem_when_statistics_are_bad_then_is_refused_by_name(changes, key):
    with pytest.raises(MillraceError) as caught:
        replace(GOOD, **changes)

    assert caught.value.key == key


def test_problem_when_the_cluster_is_empty_then_is_refused():
    with pytest.raises(MillraceError, match="nodes"):
        problem([], [], 0)


def test_loads_when_capacities_differ_then_are_shares_of_them():
    assert GOOD.loads(GOOD.node).tolist() == [10.0, 25.0, 0.0]


def test_mean_when_capacities_differ_then_is_the_common_share():
    assert GOOD.mean(GOOD.node) == pytest.approx(15.0)
    assert GOOD.distance(GOOD.node) == pytest.approx(15.0)


def test_mean_when_a_node_is_removed_then_the_others_share_its_load():
    posed = replace(GOOD, removed=np.array([True, False, False]))

    assert posed.mean(posed.node) == pytest.approx(20.0)
    assert posed.distance(posed.node) == pytest.approx(20.0)


def test_own_when_partners_are_together_then_the_receiver_saves():
    posed = replace(GOOD, flows=flows((1, 2, 5, 3)))

    assert posed.own(posed.node).tolist() == [10.0, 20.0, 27.0]
    assert posed.own(np.array([0, 1, 2])).tolist() == [10.0, 20.0, 30.0]


def test_together_when_groups_have_no_node_then_is_false():
    posed = replace(GOOD, node=np.array([-1, -1, 0]), flows=flows((0, 1, 1, 1)))

    assert not posed.flows.near(posed.node).any()


def test_spent_when_a_group_had_no_node_then_placing_it_is_free():
    posed = replace(GOOD, node=np.array([-1, 1, 1]), cost=np.array([5.0, 2.0, 3.0]))

    assert posed.spent(np.array([0, 0, 1])) == 2.0
    assert posed.moved(np.array([0, 0, 1])).tolist() == [1]


def test_placement_when_a_group_moves_then_has_its_cost_and_distance():
    posed = problem([10.0, 10.0, 10.0, 10.0], [0, 0, 0, 1], 2, 1)
    after = np.array([0, 0, 1, 1])

    assert posed.moved(after).tolist() == [2]
    assert posed.spent(after) == 1
    assert [posed.distance(node) for node in (posed.node, after)] == [10.0, 0.0]
    assert [posed.loads(node).tolist() for node in (posed.node, after)] == [[30.0, 10.0], [20.0, 20.0]]

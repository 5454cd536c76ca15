from __future__ import annotations

import numpy as np
import pytest

from benchmarks.simulation.placement import Cluster, PeriodTraffic, PlacementPlant, collocation, distance, loads
from millrace.model.errors import MillraceError


def _traffic(scale: float = 1.0) -> PeriodTraffic:
    """Group 0 passes four rows to 2, group 1 passes one to 3; the receiver saves two points per row."""
    return PeriodTraffic(
        load=np.array([10.0, 6.0, 8.0, 4.0]) * scale,
        producer=np.array([0, 1]),
        consumer=np.array([2, 3]),
        rate=np.array([4.0, 1.0]),
        saved=np.array([8.0, 2.0]) * scale,
    )


def _plant(**changes: float) -> PlacementPlant:
    cluster = Cluster(
        operator=np.array([0, 0, 1, 1]),
        node=np.array([0, 1, 1, 0]),
        capacity=np.ones(2),
        state=np.array([1.0, 1.0, 3.0, 1.0]),
        **changes,  # type: ignore[arg-type]
    )
    return PlacementPlant(cluster, lambda period: _traffic(1 + period))


def test_loads_when_partners_are_together_then_the_receiver_saves() -> None:
    np.testing.assert_allclose(loads(_traffic(), np.array([0, 1, 1, 0]), np.ones(2)), [14, 14])
    np.testing.assert_allclose(loads(_traffic(), np.array([0, 1, 0, 1]), np.ones(2)), [10, 8])


def test_apply_when_a_pair_is_brought_together_then_reports_savings_and_cost() -> None:
    plant = _plant(pause_s=2.0)
    found = plant.apply(np.array([0, 1, 0, 0]))
    assert found.collocation == pytest.approx(0.8)
    assert found.distance == pytest.approx(4.0)
    assert found.load_index == pytest.approx(20 / 28)
    assert (found.moves, found.spent, found.pause_s) == (1, 3.0, 6.0)


def test_apply_when_moves_cost_load_then_both_nodes_pay_in_that_period_only() -> None:
    plant = _plant(move_points=0.5)
    assert plant.apply(np.array([0, 1, 0, 0])).load_index == pytest.approx((20 + 2 * 0.5 * 3) / 28)
    assert plant.apply(np.array([0, 1, 0, 0])).load_index == pytest.approx(2 * 20 / 28)


def test_apply_when_done_then_the_next_periods_traffic_arrives_and_the_placement_stays() -> None:
    plant = _plant()
    plant.apply(np.array([1, 1, 1, 1]))
    assert plant.period == 1
    assert plant.node.tolist() == [1, 1, 1, 1]
    np.testing.assert_allclose(plant.traffic.load, _traffic(2).load)


def test_apply_when_a_group_has_no_node_then_says_so_and_changes_nothing() -> None:
    plant = _plant()
    with pytest.raises(MillraceError, match="placement"):
        plant.apply(np.array([0, 1, 2, 0]))
    with pytest.raises(MillraceError, match="placement"):
        plant.apply(np.array([0, 1, -1, 0]))
    assert plant.period == 0


def test_distance_when_a_node_is_marked_then_it_counts_for_the_mean_but_not_the_deviation() -> None:
    found = distance(np.array([30.0, 20.0, 10.0]), np.ones(3), np.array([False, False, True]))
    assert found == pytest.approx(10.0)


def test_collocation_when_nothing_flows_then_it_is_zero() -> None:
    still = PeriodTraffic(np.ones(2), np.array([0]), np.array([1]), np.zeros(1), np.zeros(1))
    assert collocation(still, np.array([0, 0])) == 0.0


def test_cluster_when_shapes_do_not_fit_then_says_which() -> None:
    with pytest.raises(MillraceError, match="state"):
        Cluster(np.zeros(2, dtype=int), np.zeros(2, dtype=int), np.ones(1), np.ones(3))


def test_plant_when_given_a_list_of_periods_then_uses_them_in_turn() -> None:
    cluster = Cluster(np.zeros(4, dtype=int), np.array([0, 1, 1, 0]), np.ones(2), np.ones(4))
    plant = PlacementPlant(cluster, [_traffic(1), _traffic(3)])
    plant.apply(plant.node)
    np.testing.assert_allclose(plant.traffic.load, _traffic(3).load)

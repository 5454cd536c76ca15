from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.model.errors import MillraceError
from millrace.model.placement import Flows, PartitionLoads, Speeds
from millrace.optimizers.albic.cluster import Cluster, cluster
from millrace.optimizers.albic.options import PlacementOptions
from millrace.optimizers.albic.planning import plan_placement
from tests.examples import examples
from tests.optimizers.albic.partition_loads import groups

NOTHING = np.zeros(0, dtype=np.intp)


def made(measured: PartitionLoads, executors: int, cores: int = 1, **options: object) -> Cluster:
    return cluster(measured, measured.executor, executors, cores, PlacementOptions.read(options))


def planned(of: Cluster, fixed: object = NOTHING) -> np.ndarray:
    return plan_placement(of, "joint", np.array(fixed, dtype=np.intp), 0).node


def test_batch_lasts_as_long_as_the_busiest_worker_of_each_stage() -> None:
    # evenly loaded in sum, and idle half of each stage
    measured = groups([3, 1, 1, 1], [0, 0, 1, 1, 0, 0, 1, 1], second=[0, 1, 1, 3])
    of = made(measured, 2)
    assert of.batch_s(of.problem.node) == 4 + 4 == measured.stateful_batch_s(1)
    assert of.bound_s() == 3 + 3
    assert of.batch_s(planned(of)) == 6


def test_batch_on_several_cores_lasts_as_long_as_its_longest_task() -> None:
    of = made(groups([3, 1, 1, 1], [0, 0, 1, 1]), 2, cores=4)
    assert of.batch_s(of.problem.node) == 3 == of.bound_s()


def test_slow_worker_gets_less_and_the_bound_counts_worker_speeds() -> None:
    slow = Speeds((0, 1), (0.5, 1.5))
    of = made(groups([1] * 8, [0, 0, 0, 0, 1, 1, 1, 1], speeds=slow), 2)
    assert of.batch_s(of.problem.node) == 4 / 0.5 and of.bound_s() == 8 / 2
    assert np.bincount(planned(of)).tolist() == [2, 6] and of.batch_s(planned(of)) == of.bound_s()
    # an unknown executor counts as the mean one
    assert made(groups([1] * 8, [0] * 8, speeds=slow), 2).bound_s() == 8 / 2
    assert made(groups([1] * 8, [1] * 8, speeds=Speeds((1,), (2.0,))), 2).bound_s() == pytest.approx(8 / 3)
    longest = made(groups([6, 1, 1], [0, 0, 1], speeds=slow), 2)
    assert longest.bound_s() == 6 / 1.5 and groups([6, 1, 1], [0, 0, 1], speeds=slow).stateful_batch_s(1) == 14


def test_new_workers_take_the_lowest_free_numbers() -> None:
    of = made(groups([1, 1, 1, 1], [1, 1, 3, -1]), 4)
    assert sorted(of.executors) == [0, 1, 2, 3]
    assert [of.executors[i] if i >= 0 else -1 for i in of.problem.node] == [1, 1, 3, -1]


def test_workers_with_the_least_load_are_emptied() -> None:
    of = made(groups([5, 1, 2, 9], [0, 1, 2, 3]), 2, budget=float("inf"))
    assert {of.executors[i] for i in np.flatnonzero(of.problem.removed)} == {1, 2}
    assert {of.executors[i] for i in planned(of)} == {0, 3}


def test_budget_is_shared_by_all_stages() -> None:
    of = made(groups([4, 1, 1, 1], [0] * 8, second=[1, 1, 1, 1]), 2, budget=2)
    node = planned(of)
    assert of.problem.spent(node) <= 2
    # the stage that loses more comes first
    assert of.stage_s(of.stages[0], node) == 4


def test_resting_group_stays() -> None:
    of = made(groups([4, 4, 1, 1], [0, 0, 0, 0]), 2)
    node = planned(of, fixed=[0, 1])
    assert (node[:2] == of.problem.node[:2]).all() and (node[2:] != of.problem.node[2:]).all()


def test_state_of_all_stages_stays_below_its_limit() -> None:
    sizes = (60_000_000, 10_000_000, 10_000_000, 10_000_000) * 2
    measured = groups([1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 0], second=[1, 1, 1, 1], state_bytes=sizes)
    of = made(measured, 2, budget=float("inf"), max_state_mb=100.0)
    held = np.bincount(planned(of), np.array(sizes) / 1e6, 2)
    assert held.max() <= 100.0


def test_memory_and_time_of_cores_stay_below_their_limits() -> None:
    sizes = (6_000_000, 6_000_000, 1_000_000, 1_000_000)
    measured = groups([1, 1, 1, 1], [0, 0, 1, 1], memory_bytes=sizes)
    of = made(measured, 2, budget=float("inf"), max_memory_mb=10.0)
    assert np.bincount(planned(of), np.array(sizes) / 1e6, 2).max() <= 10.0
    # executor 0 may be busy for .5 x 4 s, and half as fast is half of that
    of = made(groups([1, 1, 1, 1], [0, 0, 0, 1], batch_s=4.0, speeds=Speeds((0,), (0.5,))), 2, max_busy_ratio=0.5)
    assert of.problem.caps is not None and of.problem.caps.limit.tolist() == [[1.0, 2.0]]
    of = made(groups([1, 1, 1, 1], [0, 0, 0, 1], batch_s=4.0), 2, cores=2, max_busy_ratio=0.25)
    assert np.bincount(planned(of)).tolist() == [2, 2]


@pytest.mark.parametrize("options", [{"cost": "state"}, {"max_state_mb": 5.0}, {"max_memory_mb": 5.0}])
def test_expensive_unmeasured_state_is_named(options: dict[str, object]) -> None:
    with pytest.raises(MillraceError, match=r"partition_loads\.(state|memory)_bytes"):
        made(groups([1, 1], [0, 1]), 2, **options)


@given(
    busy=st.lists(st.floats(0, 100), min_size=1, max_size=20),
    executors=st.integers(1, 5),
    cores=st.integers(1, 3),
    seed=st.randoms(use_true_random=False),
)
@example(busy=[5e-324], executors=1, cores=1, seed=Random(0))
@examples(60)
def test_plan_uses_no_marked_worker_and_never_undercuts_the_bound(
    busy: list[float], executors: int, cores: int, seed: object
) -> None:
    executor = [seed.randint(-1, 5) for _ in busy]  # type: ignore[attr-defined]
    of = made(groups(busy, executor), executors, cores, budget=float("inf"))
    node = planned(of)
    assert (node >= 0).all() and not of.problem.removed[node].any()
    assert of.batch_s(node) >= of.bound_s() * (1 - 1e-9)
    assert len(of.problem.kept) == executors


def test_groups_with_few_producers_join_them_if_that_saves_more() -> None:
    """Four groups of each stage, one to one, each far from its input."""
    flows = Flows((0, 1, 2, 3), (4, 5, 6, 7), (1_000_000,) * 4, s_per_mb=0.5)
    measured = groups([1] * 4, [0, 0, 1, 1, 1, 1, 0, 0], second=[1] * 4, flows=flows)
    of = made(measured, 2)
    assert (of.batch_s(of.problem.node), of.bound_s()) == (4, 3)
    node = planned(of)
    found = of.problem.flows
    assert of.batch_s(node) == 3 and found.near_share(of.problem.node) == 0.0 and found.near_share(node) == 1.0
    assert of.problem.spent(node) == 4
    assert of.batch_s(planned(made(measured, 2, budget=2))) == 3.5
    assert (planned(made(measured, 2, remote_s_per_mb=0.0)) == of.problem.node).all()


def test_balance_is_not_given_up_for_locality() -> None:
    flows = Flows((0, 0, 0, 0), (4, 5, 6, 7), (1_000_000,) * 4, s_per_mb=0.1)
    of = made(groups([1] * 4, [0, 1, 0, 1, 0, 1, 0, 1], second=[1] * 4, flows=flows), 2)
    assert of.batch_s(planned(of)) <= of.batch_s(of.problem.node)


def test_load_measured_next_to_its_input_is_higher_elsewhere() -> None:
    flows = Flows((0,), (1,), (2_000_000,), s_per_mb=0.25)
    of = made(groups([1], [0, 0], second=[1], flows=flows), 2)
    assert of.problem.own(np.array([0, 0])).tolist() == [1, 1] and of.problem.own(np.array([0, 1])).tolist() == [1, 1.5]


def test_unevenness_is_the_time_over_that_of_slots_which_share_the_work_evenly() -> None:
    assert groups([4, 4, 4, 4], [0, 0, 1, 1]).unevenness(1, 2) == 1.0
    assert groups([6, 2, 2, 2], [0, 0, 1, 1]).unevenness(1, 2) == pytest.approx(8 / 6)
    assert groups([6, 6], [0, 0]).unevenness(1, 4) == pytest.approx(2.0), "two tasks use two of four slots"
    assert groups([0, 0], [0, 1]).unevenness(1, 2) == 1.0

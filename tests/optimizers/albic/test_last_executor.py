"""The order in which Spark starts tasks, and placements that use it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.placement import makespan_s
from millrace.optimizers.albic.last_executor import Stage, relieve

LOADS = st.lists(st.integers(0, 9), min_size=1, max_size=6)


def stage(load: list[float], origin: list[int], executors: int = 2, cores: int = 2, **changes: object) -> Stage:
    size = len(load)
    given_ = {
        "load": np.array(load, dtype=float),
        "origin": np.array(origin),
        "movable": np.ones(size, dtype=bool),
        "cost": np.ones(size),
        "budget": np.inf,
        "speed": np.ones(executors),
        "kept": np.ones(executors, dtype=bool),
        "cores": cores,
        "effort": 100_000,
    }
    return Stage(**{**given_, **changes})  # type: ignore[arg-type]


def ready_s(of: Stage, node: np.ndarray) -> float:
    executors = range(len(of.speed))
    return max(makespan_s(of.load[node == w].tolist(), of.cores) / of.speed[w] for w in executors)


def test_tasks_start_by_rising_partition_on_the_first_free_core() -> None:
    assert makespan_s([6, 1, 1, 1], 2) == 6
    assert makespan_s([1, 1, 1, 6], 2) == 7
    assert makespan_s([], 2) == 0


def test_long_task_that_would_start_last_gets_tasks_that_start_after_it() -> None:
    of = stage([1, 1, 1, 6, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1])
    node = relieve(of, of.origin)
    assert ready_s(of, of.origin) == 7 and ready_s(of, node) == 6


@given(LOADS, st.data())
def test_plan_is_never_longer_within_the_budget_and_pinned_groups_stay(load: list[float], data: st.DataObject) -> None:
    size, executors = len(load), 3
    ends = st.lists(st.integers(0, executors - 1), min_size=size, max_size=size)
    movable = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    of = stage(load, data.draw(ends), executors, movable=movable, budget=float(data.draw(st.integers(0, 3))))
    node = relieve(of, of.origin)
    assert ready_s(of, node) <= ready_s(of, of.origin)
    moved = node != of.origin
    assert moved.sum() <= of.budget and not (moved & ~movable).any()


@given(LOADS, st.data())
def test_marked_worker_gets_nothing(load: list[float], data: st.DataObject) -> None:
    origin = data.draw(st.lists(st.integers(0, 1), min_size=len(load), max_size=len(load)))
    of = stage(load, origin, 3, kept=np.array([True, True, False]))
    assert 2 not in relieve(of, of.origin)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_two_workers_are_at_most_a_task_from_the_best(load: list[float]) -> None:
    of = stage(load, [0] * len(load))
    best = min(ready_s(of, np.array(node)) for node in product((0, 1), repeat=len(load)))
    assert ready_s(of, relieve(of, of.origin)) <= best + max(load)


def test_slow_worker_gets_less() -> None:
    of = stage([1] * 6, [0] * 6, cores=1, speed=np.array([0.5, 1.0]))
    assert ready_s(of, relieve(of, of.origin)) == pytest.approx(4)

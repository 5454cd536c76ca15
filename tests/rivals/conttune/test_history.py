from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from millrace.optimizers.conformance.builders import (
    APP,
    NOON,
    app_signals,
    capacity,
    dag_signals,
    deployment,
    edges,
    observed,
    operator,
    source,
)
from millrace.optimizers.conttune.job_graph import build_job, whole_app
from millrace.optimizers.conttune.observed_levels import MAX_LEVELS, nearest, training_columns
from millrace_rivals.conttune.history import levels_by_operator, mean_levels, with_current


def test_levels_when_there_are_more_than_k_then_forget_the_oldest() -> None:
    (level,) = mean_levels(observed({2: (1000.0, 10.0, 20.0, 30.0)}), 3)
    assert (level.parallelism, level.ability) == (2, 20.0)


def test_levels_when_there_are_fewer_than_k_then_count_all_per_level() -> None:
    found = mean_levels(observed({4: (30.0, 40.0), 1: 10.0}), 5)
    assert [(level.parallelism, level.ability) for level in found] == [(1, 10.0), (4, 35.0)]


def test_level_error_is_the_larger_of_scatter_and_own_error() -> None:
    (level,) = mean_levels(observed({1: (90.0, 110.0)}), 5)
    assert level.error == pytest.approx(10.0)
    told = [replace(o, noise=50.0) for o in observed({1: (90.0, 110.0)})]
    assert mean_levels(told, 5)[0].error == pytest.approx(50 / 2**0.5)


def test_observations_of_others_or_impossible_ones_do_not_count() -> None:
    good = observed({1: 10.0})
    bad = [
        replace(good[0], operator="other"),
        replace(good[0], throughput=0.0),
        replace(good[0], throughput=float("nan")),
        replace(good[0], parallelism=0),
        replace(good[0], noise=float("inf")),
    ]
    app = whole_app(app_signals(1, 10.0, None))
    assert levels_by_operator([*bad, *good], [app], 5, NOON)[APP] == mean_levels(good, 5)


def test_current_measurement_when_recorded_already_then_counts_once() -> None:
    known = observed({2: (20.0, 25.0)})
    again, new = (whole_app(app_signals(2, 10.0, capacity(2, ability))) for ability in (25.0, 20.0))
    assert with_current(known, again, NOON) == known
    added = with_current(known, new, NOON)
    assert [o.throughput for o in added] == [20.0, 25.0, 20.0]


def test_levels_when_there_are_very_many_then_use_the_most_recent() -> None:
    points = [replace(observed({p: 10.0})[0], time=NOON + timedelta(seconds=-p if p % 2 else p)) for p in range(1, 301)]
    found = [level.parallelism for level in mean_levels(points, 5)]
    assert len(found) == MAX_LEVELS and found == sorted(found) and set(found) == set(range(102, 301, 2))


def test_nearest_when_two_are_equally_near_then_is_the_lower() -> None:
    known = mean_levels(observed({2: 20.0, 6: 60.0}), 5)
    assert nearest(known, 4).parallelism == 2
    assert nearest(known, 5).parallelism == 6


def test_columns_when_made_then_are_a_models_training() -> None:
    assert training_columns(mean_levels(observed({2: 20.0, 1: 10.0}), 5)) == {
        "parallelism": (1.0, 2.0),
        "throughput": (10.0, 20.0),
        "noise": (0.0, 0.0),
    }


def test_levels_are_each_operators_own_with_the_present_measurement() -> None:
    p = {"split": 2, "count": 4}
    told = [source("lines", 9.0), operator("split", 2, 9.0, 50.0), operator("count", 4, 9.0, None)]
    points = (
        *observed({1: 30.0, 2: (60.0, 40.0)}, operator=f"{APP}/split"),
        *observed({8: 700.0}, operator=f"{APP}/count"),
        *observed({3: 1.0}),
    )
    seen = dag_signals(told, edges("lines>split split>count", {}), points)
    found = levels_by_operator(
        seen.observations, build_job(seen.apps[0], deployment(seen.apps[0].slots, p)).sizable, 2, seen.until
    )
    levels_of = {
        name: [(level.parallelism, level.ability) for level in mean_levels] for name, mean_levels in found.items()
    }
    assert levels_of == {f"{APP}/split": [(1, 30.0), (2, 45.0)], f"{APP}/count": [(8, 700.0)]}

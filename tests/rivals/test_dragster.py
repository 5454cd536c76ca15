from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from millrace.model.decision import Memory
from millrace.model.objective import Bounds
from millrace.optimizers.conformance.builders import app_signals, capacity, deployment, observed, signals, target
from millrace.optimizers.registry import create
from millrace_rivals.dragster import (
    MAX_PRICE,
    MAX_RATES,
    OperatorMemory,
    Point,
    confidence_bounds,
    rate_name,
)


def power(p: int) -> float:
    return 100.0 * p**0.8


def tune(
    p: int, rate: float, memory: Memory | None = None, evaluations: int = 30, **options: Any
) -> tuple[list[int], Memory]:
    """The successive levels at a rate, and the memory at the end."""
    tuner, kept, tried = create("dragster", options), memory or {}, [p]
    history: dict[int, float] = {}
    for _ in range(evaluations):
        history[p] = power(p)
        app = app_signals(p, rate, capacity(p, power(p)))
        proposal, kept = tuner.propose(signals(app, observed(history), Bounds(1, 32)), deployment(p), kept)
        p = target(proposal, p)
        if p != tried[-1]:
            tried.append(p)
    return tried, kept


@pytest.mark.parametrize(("start", "rate"), [(1, 700.0), (32, 700.0), (4, 150.0), (2, 1000.0)])
def test_levels_at_a_steady_rate_reach_the_lowest_sufficient_one(start: int, rate: float) -> None:
    tried, _ = tune(start, rate)
    assert tried[-1] == next(p for p in range(1, 33) if power(p) >= rate)
    assert len(tried) <= 6


def test_levels_explored_upward_stay_below_linear_scaling() -> None:
    tried, _ = tune(4, 900.0, evaluations=1)
    assert 4 < tried[-1] < 900 / (power(4) / 4)


def test_rate_that_returns_reuses_only_its_own_measurements() -> None:
    first, memory = tune(1, 700.0)
    _, memory = tune(12, 100.0, memory)
    again, memory = tune(1, 700.0, memory)
    assert len(first) > 2 and again == [1, 12]
    assert len(tune(1, 1000.0, memory)[0]) > 2


def test_rates_that_share_a_model_share_their_measurements() -> None:
    def second(*, per_rate: bool) -> list[int]:
        tuner = create("dragster", {"per_rate": per_rate})
        known = observed({p: power(p) for p in range(1, 33)})
        app = app_signals(4, 700.0, capacity(4, power(4)))
        return [target(tuner.propose(signals(app, known, Bounds(1, 32)), deployment(4), {})[0], 4)]

    assert second(per_rate=False) == [12]
    assert second(per_rate=True) != [12]


def test_price_rises_while_the_constraint_is_missed_and_decays_with_slack() -> None:
    memory = OperatorMemory().with_measurement(rate=100.0, p=1, ability=40.0, step=0.5)
    assert memory.price == 0.0, "p was chosen for another rate"
    memory = memory.with_measurement(100.0, 2, 80.0, 0.5)
    assert memory.price == pytest.approx(0.1)
    assert memory.with_measurement(100.0, 3, 110.0, 0.5).price == pytest.approx(0.05)
    assert memory.with_measurement(100.0, 3, 900.0, 0.5).price == 0.0
    assert memory.with_measurement(100.0, 3, 1.0, 5.0).price == MAX_PRICE


def test_points_are_averaged_by_rate_and_old_rates_forgotten() -> None:
    memory = OperatorMemory()
    for ability in (100.0, 120.0):
        memory = memory.with_measurement(50.0, 2, ability, 0.5)
    assert memory.by_rate[rate_name(50.0)] == {2: Point(110.0, 2)}
    for rate in range(100, 10_000, 11):
        memory = memory.with_measurement(float(rate), 2, 100.0, 0.5)
    assert len(memory.by_rate) == MAX_RATES and rate_name(50.0) not in memory.by_rate


def test_memory_when_stored_then_reads_back_and_junk_does_not() -> None:
    memory = OperatorMemory().with_measurement(100.0, 2, 80.0, 0.5).with_measurement(300.0, 3, 90.0, 0.5)
    assert OperatorMemory.read(json.loads(json.dumps(memory.to_json()))) == memory
    junk = {"price": "x", "by_rate": [["1", [[0, 1, 1], ["x"], [2, -1.0, 1], [2, 5.0, 1]]], [3], "ab"]}
    assert OperatorMemory.read(junk) == OperatorMemory(0.0, {"1": {2: Point(5.0, 1)}})


def test_bound_of_a_level_is_never_above_a_higher_measured_one() -> None:
    believed = confidence_bounds({4: Point(400.0), 8: Point(410.0)}, 16, 2.0)
    assert believed is not None
    mean, upper = believed
    assert (mean <= upper + 1e-9).sum() >= 8
    assert (upper[:8] <= 410.0 * 1.05).all()
    assert np.isfinite(upper).all() and upper[15] > upper[7]


def test_bound_is_none_if_points_vanish_in_floating_point() -> None:
    assert confidence_bounds({3: Point(5e-324)}, 8, 1.0) is None


def test_sentence_when_a_level_is_the_aim_then_states_it() -> None:
    seen_now = signals(app_signals(4, 900.0, capacity(4, power(4))), bounds=Bounds(1, 32))
    _, memory = create("dragster", {}).propose(seen_now, deployment(4), {})
    proposal, _ = create("dragster", {}).propose(seen_now, deployment(4), memory)
    assert proposal.reason_code == "saddle_point"
    assert "to process 1,198 rows/s" in proposal.sentence  # 900 and a price of 0.5 (900 - 303) / 900

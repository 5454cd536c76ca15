from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.conttune.episodes import ineffective, recovery
from benchmarks.simulation.drift import Drift, Event


def step(at_s: float, before: int, after: int) -> Any:
    return SimpleNamespace(at_s=at_s, before=(before,), after=(after,), reconfigures=before != after)


def case(steps: list[Any], adequate: list[bool], drift: Drift | None = None) -> Any:
    """Three tunings of 100 s; ``adequate`` says whether each ends well."""
    workload = SimpleNamespace(tunings=(0.0, 100.0, 200.0), until=300.0)
    segments = [SimpleNamespace(until=100.0 * (i + 1), adequate=ok) for i, ok in enumerate(adequate)]
    scenario = SimpleNamespace(workload=workload, drift=drift or Drift((Event(150.0),)), units=("op",))
    return SimpleNamespace(steps=steps, segments=segments, scenario=scenario)


def test_recovery_when_one_step_is_enough_then_is_one() -> None:
    steps = [step(30, 1, 4), step(130, 4, 5), step(180, 5, 6), step(190, 6, 6), step(230, 6, 9)]
    assert recovery(case(steps, [True, True, True])) == 1


def test_recovery_when_the_tuning_ends_too_small_then_continues_minus_the_load_change() -> None:
    steps = [step(160, 4, 5), step(190, 5, 6), step(230, 6, 7), step(260, 7, 9)]
    assert recovery(case(steps, [True, False, True])) == 2 + 1


@pytest.mark.parametrize("drift", [Drift(), Drift((Event(150.0, over_s=60.0),))])
def test_recovery_when_nothing_fell_at_one_moment_then_is_unknown(drift: Drift) -> None:
    assert math.isnan(recovery(SimpleNamespace(scenario=SimpleNamespace(drift=drift))))  # type: ignore[arg-type]


def test_ineffective_when_steps_bring_nothing_then_counts_them_per_tuning() -> None:
    ability = np.minimum(np.arange(1, 41), 8.0)
    plant: Any = SimpleNamespace(truth=SimpleNamespace(ability=lambda unit: ability))
    # up to the plateau, three times beyond it in one tuning, once in the next, and down again
    steps = [step(10, 2, 8), step(20, 8, 16), step(30, 16, 20), step(40, 20, 40), step(120, 40, 8), step(130, 8, 9)]
    assert ineffective(case(steps, [True] * 3), plant) == 3
    assert ineffective(case(steps[:1], [True] * 3), plant) == 0

from __future__ import annotations

from typing import Any

import pytest

from millrace.model.decision import Memory
from millrace.model.objective import Bounds
from millrace.model.signals import Signals
from millrace.optimizers.conformance.builders import (
    app_signals,
    capacity,
    dag_signals,
    deployment,
    edges,
    operator,
    signals,
    source,
    target,
)
from millrace.optimizers.registry import create


def power(p: int) -> float:
    return 100.0 * p**0.9


def job(p: dict[str, int], rate: float) -> Signals:
    told = [source("lines", rate), *(operator(name, level, rate, power(level)) for name, level in p.items())]
    return dag_signals(
        told, edges("lines>split split>count", dict.fromkeys(["lines", "split"], rate)), bounds=Bounds(1, 16)
    )


def search(p: dict[str, int], rate: float, **options: Any) -> list[dict[str, int]]:
    """All configurations up to the last one of the search."""
    tuner, memory, tried = create("random", options), {}, [p]
    kept: Memory = memory
    for _ in range(500):
        seen = job(tried[-1], rate)
        proposal, kept = tuner.propose(seen, deployment(seen.apps[0].slots, tried[-1]), kept)
        if not proposal.changes:
            return tried
        assert proposal.reason_code == "random_trial"
        tried.append({**tried[-1], **{str(c.operator): c.value for c in proposal.changes}})
    raise AssertionError("the search did not end")


def test_search_ends_at_levels_whose_next_lower_one_is_not_enough() -> None:
    tried = search({"split": 1, "count": 16}, 700.0, tolerance=0.0)
    assert set(tried[-1].values()) == {9}  # PA(9) = 722
    assert len(tried) > 2
    assert set(search({"split": 1, "count": 16}, 700.0, tolerance=0.3)[-1].values()) <= set(range(9, 13))
    assert len(set(map(str, tried))) > 2


def test_search_draws_only_operators_that_lack_their_level() -> None:
    assert {configuration["split"] for configuration in search({"split": 9, "count": 1}, 700.0)} == {9}


def test_search_when_p_max_is_set_then_tries_nothing_above() -> None:
    tried = search({"split": 1, "count": 1}, 250.0, p_max=4)
    assert max(max(configuration.values()) for configuration in tried) <= 4


def test_search_ends_at_multiples_of_an_executors_cores() -> None:
    bounds = Bounds(4, 16, 4)
    for now in bounds.levels:
        app = app_signals(now, 700.0, capacity(now, power(now)))
        proposal, _ = create("random", {"tolerance": 0.0}).propose(signals(app, bounds=bounds), deployment(now), {})
        assert [c.value in bounds for c in proposal.changes] == ([] if now == 12 else [True])  # PA(8) = 650


def test_draws_follow_from_memory_and_seed() -> None:
    start = {"split": 1, "count": 1}
    assert search(start, 700.0) == search(start, 700.0)
    assert search(start, 700.0) != search(start, 700.0, seed=2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, "random_trial"), ({"known_arrival_rate": False}, "well_provisioned")],
)
def test_lambda_is_the_arrival_rate_if_known_else_the_processing_rate(options: dict[str, Any], expected: str) -> None:
    seen = signals(app_signals(2, 500.0, capacity(2, 180.0), processed_rows_per_s=170.0))
    assert create("random", options).propose(seen, deployment(2), {})[0].reason_code == expected


def test_bounds_when_they_leave_one_level_then_draw_nothing() -> None:
    seen = signals(app_signals(2, 500.0, capacity(2, 180.0)), bounds=Bounds(2, 2))
    proposal = create("random", {}).propose(seen, deployment(2), {})[0]
    assert target(proposal, 2) == 2

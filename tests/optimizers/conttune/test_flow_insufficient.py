"""flow after a size that was too small: it does not return to the size while the rate is the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from millrace.model.decision import Memory
from millrace.model.signals import Signals
from millrace.optimizers.conformance.builders import (
    NOON,
    app_signals,
    deployment,
    observed,
    signals,
    target,
    with_operator,
)
from millrace.optimizers.registry import create
from tests.optimizers.conttune.flow_cases import POWER, WELL, chain, measured, targets

LUCKY = {2: [900.0] * 5, 8: [1800.0] * 5}
"""History by which a single slot suffices for RATE."""
RATE = 400.0


def tune(seen: Signals, levels: Mapping[str, int], memory: Memory) -> tuple[dict[str, int], Memory]:
    proposal, after = create("flow", {"reshave": 0.1}).propose(seen, deployment(seen.apps[0].slots, levels), memory)
    return targets(proposal), after


def after_failure(rate: float = RATE) -> Memory:
    """The memory after two slots of an operator were too few for a rate, and it got more."""
    seen = with_operator(chain(rate, {"a": 2}, until=NOON), "a", throughput=0.5 * rate)
    changes, memory = tune(seen, {"a": 2}, {})
    assert changes["a"] > 2
    return memory


def lucky(rate: float) -> Signals:
    return chain(rate, {"a": 8}, history={"a": LUCKY}, until=NOON + timedelta(minutes=5))


def test_insufficient_size_is_skipped_at_the_same_rate() -> None:
    assert tune(lucky(RATE), {"a": 8}, {})[0] == {"a": 1}
    assert tune(lucky(RATE), {"a": 8}, after_failure())[0] == {"a": 3}
    assert tune(lucky(0.97 * RATE), {"a": 8}, after_failure())[0] == {"a": 3}


def test_insufficient_size_is_forgotten_at_another_rate() -> None:
    changes, memory = tune(lucky(0.9 * RATE), {"a": 8}, after_failure())
    assert changes == {"a": 1}
    assert tune(lucky(RATE), {"a": 8}, memory)[0] == {"a": 1}, "what sufficed there since is not known here"


def test_insufficient_size_is_forgotten_if_the_operator_changed() -> None:
    memory, changes = after_failure(), {}
    for minute in (5, 6, 7):  # eight slots do three times as much as before, which three evaluations show
        seen = replace(lucky(RATE), until=NOON + timedelta(minutes=minute))
        changes, memory = tune(with_operator(seen, "a", throughput=5400.0), {"a": 8}, memory)
    assert changes == {"a": 1}


def test_insufficient_size_on_a_cold_machine_is_used_again_once_it_is_warm() -> None:
    def evaluate(p: int, fixed_s: float, minute: int, memory: Memory) -> tuple[int, Memory]:
        app = app_signals(p, 60.0, measured(p, fixed_s=fixed_s), batch_rows_limit=400)
        seen = replace(signals(app, observed(WELL)), until=NOON + timedelta(minutes=minute))
        proposal, after = create("flow", {}).propose(seen, deployment(p), memory)
        return target(proposal, p), after

    wanted, memory = evaluate(2, 7.0, 0, {})
    assert wanted > 2
    p, course = wanted, [wanted]
    for minute in range(1, 15):
        p, memory = evaluate(p, 0.5, minute, memory)
        course.append(p)
    assert course[-1] == 1, course


def test_second_step_for_the_same_rate_takes_nothing_from_others() -> None:
    history = {"a": WELL, "b": WELL}
    first = with_operator(chain(300.0, {"a": 8, "b": 2}, history=history, until=NOON), "b", throughput=100.0)
    changes, memory = tune(first, {"a": 8, "b": 2}, {})
    assert changes["b"] > 2 and changes["a"] < 8
    again = chain(300.0, {"a": 8, "b": 3}, history=history, until=NOON + timedelta(minutes=5))
    again = with_operator(again, "b", throughput=150.0)
    changes, _ = tune(again, {"a": 8, "b": 3}, memory)
    assert changes["b"] > 3 and "a" not in changes


def test_steps_grow_while_they_fail() -> None:
    memory: Memory = {}
    sizes = [4]
    for minute in range(4):  # the job falls behind, whatever the measurements
        told = {"history": {"a": WELL}, "until": NOON + timedelta(minutes=minute), "backlog_growth_rows_per_s": 20.0}
        changes, memory = tune(chain(0.99 * POWER[4], {"a": sizes[-1]}, **told), {"a": sizes[-1]}, memory)
        sizes.append(changes["a"])
    steps = [b - a for a, b in pairwise(sizes)]
    assert steps == [1, 1, 2, 3], sizes


def test_size_that_had_to_drain_a_backlog_is_left_once_it_is_gone() -> None:
    def evaluate(backlog: int, minute: int, memory: Memory) -> tuple[int, Memory]:
        app = app_signals(8, 100.0, measured(8), backlog_rows=backlog)
        seen = replace(signals(app, observed(WELL)), until=NOON + timedelta(minutes=minute))
        proposal, after = create("flow", {}).propose(seen, deployment(8), memory)
        return target(proposal, 8), after

    start = app_signals(1, 100.0, measured(1), backlog_rows=200_000)
    _, memory = create("flow", {}).propose(replace(signals(start, observed(WELL)), until=NOON), deployment(1), {})
    for minute in range(1, 4):
        wanted, memory = evaluate(200_000 - 60_000 * minute, minute, memory)
        assert wanted == 8
    for minute in range(4, 6):
        wanted, memory = evaluate(0, minute, memory)
    assert wanted < 8

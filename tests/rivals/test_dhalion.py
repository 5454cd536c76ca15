from __future__ import annotations

from typing import Any

from millrace.model.decision import Memory, Proposal
from millrace.model.objective import Bounds
from millrace.model.signals import Edge, Signals
from millrace.optimizers.conformance.builders import (
    app_signals,
    capacity,
    dag_signals,
    deployment,
    operator,
    signals,
    source,
    target,
)
from millrace.optimizers.registry import create

P = {"split": 4, "count": 4}


def chain(
    held: tuple[float, float] = (0.0, 0.0), busy: tuple[float, float] = (0.9, 0.9), rate: float = 100.0
) -> Signals:
    """lines -> split -> count; the share of time that source and split are held up, and the operators' busy share."""
    told = [
        source("lines", rate, backpressured_ratio=held[0]),
        operator("split", P["split"], rate, 120.0, backpressured_ratio=held[1], busy_ratio=busy[0]),
        operator("count", P["count"], rate, 120.0, busy_ratio=busy[1]),
    ]
    links = [Edge("lines", "split", rate), Edge("split", "count", rate)]
    return dag_signals(told, links, bounds=Bounds(1, 64), backpressured_ratio=max(held))


def ask(
    seen: Signals, p: dict[str, int] | None = None, memory: Memory | None = None, **options: Any
) -> tuple[Proposal, Memory]:
    return create("dhalion", options).propose(seen, deployment(seen.apps[0].slots, p or P), memory or {})


def changes(proposal: Proposal) -> dict[str | None, int]:
    return {change.operator: change.value for change in proposal.changes}


def test_bottleneck_is_the_consumer_of_a_held_up_source() -> None:
    proposal, _ = ask(chain(held=(0.5, 0.0)))
    assert changes(proposal) == {"split": 8}  # held up for half of the time: 4 (1 + 0.5 / 0.5)
    assert proposal.reason_code == "backpressure_starts_here"
    assert "backpressured the upstream 50 % of the time" in proposal.sentence


def test_bottleneck_when_all_upstream_are_held_up_then_is_the_only_one_scaled() -> None:
    assert changes(ask(chain(held=(0.6, 0.2)))[0]) == {"count": 5}


def test_bottleneck_when_two_share_a_producer_then_is_the_busier() -> None:
    told = [
        source("lines", 100.0, backpressured_ratio=0.5),
        operator("left", 2, 50.0, 50.0, busy_ratio=1.0),
        operator("right", 2, 50.0, 90.0, busy_ratio=0.55),
    ]
    seen = dag_signals(told, [Edge("lines", "left", 50.0), Edge("lines", "right", 50.0)])
    assert changes(ask(seen, {"left": 2, "right": 2})[0]) == {"left": 4}


def test_scale_up_when_hardly_anything_runs_then_is_capped() -> None:
    assert changes(ask(chain(held=(1.0, 0.0)), scale_up_max=3.0)[0]) == {"split": 12}


def test_backpressure_when_below_the_threshold_then_is_none() -> None:
    assert ask(chain(held=(0.09, 0.0)))[0].reason_code == "well_provisioned"


def test_scale_down_when_idle_and_nothing_is_held_up_then_takes_its_share() -> None:
    proposal, _ = ask(chain(busy=(0.3, 0.9)))
    assert (changes(proposal), proposal.reason_code) == ({"split": 2}, "idle_without_backpressure")
    assert changes(ask(chain(held=(0.0, 0.5), busy=(0.3, 0.9)))[0]) == {"count": 8}


def test_scale_down_takes_at_least_a_whole_executor() -> None:
    app = app_signals(8, 10.0, capacity(8, 800.0), busy_ratio=0.1, slot_busy_ratio=0.01)
    proposal, _ = create("dhalion", {}).propose(signals(app, bounds=Bounds(4, 8, 4)), deployment(8), {})
    assert [change.value for change in proposal.changes] == [4]


def test_scale_down_that_caused_backpressure_is_not_repeated() -> None:
    _, memory = ask(chain(busy=(0.3, 0.9)))
    p = {"split": 2, "count": 4}
    proposal, memory = ask(chain(held=(0.5, 0.0)), p, memory)
    assert changes(proposal) == {"split": 4}
    proposal, memory = ask(chain(busy=(0.3, 0.9)), memory=memory)
    assert (changes(proposal), proposal.reason_code) == ({}, "step_failed_before")
    assert changes(ask(chain(busy=(0.2, 0.9), rate=80.0), memory=memory)[0]) == {"split": 2}


def test_scale_down_that_succeeded_continues_after_later_backpressure() -> None:
    _, memory = ask(chain(busy=(0.3, 0.9)))
    p = {"split": 2, "count": 4}
    proposal, memory = ask(chain(busy=(0.5, 0.9)), p, memory)
    assert changes(proposal) == {"split": 1}
    _, memory = ask(chain(busy=(0.7, 0.9)), {"split": 1, "count": 4}, memory)
    _, memory = ask(chain(held=(0.5, 0.0)), {"split": 1, "count": 4}, memory)
    assert changes(ask(chain(busy=(0.5, 0.9)), p, memory)[0]) == {"split": 1}


def test_scale_up_that_brought_no_more_rows_is_not_repeated() -> None:
    _, memory = ask(chain(held=(0.5, 0.0)))
    p = {"split": 8, "count": 4}
    proposal, memory = ask(chain(held=(0.5, 0.0), rate=101.0), p, memory)
    assert (changes(proposal), proposal.reason_code) == ({}, "step_failed_before")
    assert changes(ask(chain(held=(0.5, 0.0), rate=130.0), p, memory)[0]) == {"split": 16}


def test_scale_up_that_brought_more_rows_continues() -> None:
    _, memory = ask(chain(held=(0.5, 0.0)))
    proposal, _ = ask(chain(held=(0.2, 0.0), rate=160.0), {"split": 8, "count": 4}, memory)
    assert changes(proposal) == {"split": 10}


def test_step_that_was_not_made_is_not_judged() -> None:
    _, memory = ask(chain(held=(0.5, 0.0)))
    assert changes(ask(chain(held=(0.5, 0.0)), memory=memory)[0]) == {"split": 8}


def test_app_that_is_one_operator_uses_its_own_backpressure() -> None:
    tuner = create("dhalion", {})
    behind = signals(app_signals(2, 300.0, capacity(2, 180.0), backpressured_ratio=0.4))
    assert target(tuner.propose(behind, deployment(2), {})[0], 2) == 4
    idle = signals(app_signals(6, 30.0, capacity(6, 480.0), slot_busy_ratio=0.1))
    assert target(tuner.propose(idle, deployment(6), {})[0], 6) == 4

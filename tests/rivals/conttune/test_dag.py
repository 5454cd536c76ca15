"""Literal and strong ContTune on a DAG of operators with a p each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millrace.model.decision import Memory, Proposal
from millrace.model.objective import Bounds
from millrace.model.signals import Signals
from millrace.optimizers.conformance.builders import APP, dag_signals, deployment, edges, observed, operator, source
from millrace.optimizers.registry import create

POWER = {p: 100.0 * p**0.9 for p in range(1, 33)}
P = {"split": 2, "count": 3}


def seen(
    arrival: float,
    passed: float | None = None,
    p: dict[str, int] | None = None,
    history: dict[int, float] | None = None,
    growth: float = 3.0,
    **changes: Any,
) -> Signals:
    """lines -> split -> count, where split emits ``growth`` rows for one; ``passed`` of the arrivals gets through."""
    p, rate = p or P, arrival if passed is None else passed
    counted = rate * growth
    told = (
        source("lines", arrival, rate),
        operator("split", p["split"], rate, POWER[p["split"]], rows_out_per_s=counted),
        operator("count", p["count"], counted, 3 * POWER[p["count"]]),
    )
    links = edges("lines>split split>count", {"lines": rate, "split": counted})
    levels = POWER if history is None else history
    points = (
        *observed(levels, operator=f"{APP}/split"),
        *observed({level: 3 * v for level, v in levels.items()}, operator=f"{APP}/count"),
    )
    state = {"slot_busy_ratio": 1.0 if passed is not None else 0.5, "processed_rows_per_s": rate}
    backpressure = 0.0 if passed is None else 1 - passed / arrival
    values: dict[str, Any] = {"bounds": Bounds(1, 32), "backpressured_ratio": backpressure, **state}
    return dag_signals(told, links, points, **(values | changes))


def ask(
    signals: Signals, p: dict[str, int] | None = None, memory: Memory | None = None, **options: Any
) -> tuple[Proposal, Memory]:
    tuner = create("conttune", {"core_min_thr": 0.85, "core_max_thr": 0.95, **options})
    return tuner.propose(signals, deployment(signals.apps[0].slots, p or P), memory or {})


def changes(proposal: Proposal) -> dict[str | None, int]:
    return {change.operator: change.value for change in proposal.changes}


def test_big_lifts_all_operators_to_the_highest_level_of_the_job() -> None:
    history = {1: POWER[1], 6: POWER[6]}
    proposal, memory = ask(seen(400.0, passed=187.0, history=history))
    assert changes(proposal) == {"split": 6, "count": 6}
    assert proposal.reason_code == "binary_lifting"
    assert (memory["apps"][APP]["p_max"], memory["apps"][APP]["phase"]) == (6, "big")


def test_big_doubles_p_max_once_all_operators_have_it() -> None:
    p, history = {"split": 6, "count": 4}, {6: POWER[6]}
    proposal, memory = ask(seen(900.0, passed=500.0, p=p, history=history), p)
    assert changes(proposal) == {"count": 6}
    p = {"split": 6, "count": 6}
    proposal, memory = ask(seen(900.0, passed=500.0, p=p, history=history), p, memory)
    assert changes(proposal) == {"split": 12, "count": 12}
    assert memory["apps"][APP]["p_max"] == 12


def test_big_at_the_bounds_says_that_lifting_is_exhausted() -> None:
    p = {"split": 32, "count": 32}
    proposal, _ = ask(seen(9000.0, passed=2000.0, p=p), p)
    assert (changes(proposal), proposal.reason_code) == ({}, "lifting_exhausted")


def test_small_gives_every_operator_the_lowest_level_for_its_own_rate() -> None:
    _, memory = ask(seen(400.0, passed=187.0))
    p = {"split": 32, "count": 32}
    proposal, memory = ask(seen(400.0, p=p, growth=1.5, slot_busy_ratio=0.9), p, memory)
    assert changes(proposal) == {"split": 5, "count": 3}  # PA: 426 >= 400, and 3 x 269 >= 600 (2: 560)
    assert memory["apps"][APP]["phase"] == "idle"


def test_small_sizes_the_others_if_one_operator_is_not_measured() -> None:
    p = {"split": 32, "count": 32}
    found = seen(400.0, p=p)
    app = found.apps[0]
    unknown = tuple(replace(o, throughput=None) if o.operator == "count" else o for o in app.operators)
    own = tuple(o for o in found.observations if o.operator == f"{APP}/split")
    found = replace(found, apps=(replace(app, operators=unknown),), observations=own)
    assert changes(ask(found, p)[0]) == {"split": 5}


def test_small_when_no_operator_is_measured_then_says_so_for_each() -> None:
    found = seen(400.0, history={})
    app = found.apps[0]
    found = replace(found, apps=(replace(app, operators=tuple(replace(o, throughput=None) for o in app.operators)),))
    proposal, _ = ask(found)
    assert (changes(proposal), proposal.reason_code) == ({}, "capacity_unknown")
    assert f"{APP}/split" in proposal.sentence and f"{APP}/count" in proposal.sentence


def test_decision_thr_met_by_one_operator_applies_all_changes() -> None:
    p = {"split": 21, "count": 8}
    found = seen(POWER[20] - 1, p=p, growth=0.01)
    assert changes(ask(found, p)[0]) == {"split": 20, "count": 1}
    proposal, _ = ask(found, p, decision_thr=10)
    assert (changes(proposal), proposal.reason_code) == ({}, "below_decision_threshold")


def test_known_lambda_reaches_every_operator_at_once() -> None:
    proposal, _ = ask(seen(400.0, passed=187.0), preset="strong")
    assert changes(proposal) == {"split": 5, "count": 5}
    assert proposal.predicted["utilisation_ratio/count"] == pytest.approx(1200 / (3 * POWER[5]), rel=0.01)


def test_ratios_do_not_learn_from_a_throttled_evaluation() -> None:
    _, memory = ask(seen(150.0, p=P), preset="strong")
    learned = memory["apps"][APP]["ratios"]
    assert ["split", "count", 3.0, 1] in learned
    proposal, memory = ask(seen(400.0, passed=187.0, growth=0.2), memory=memory, preset="strong")
    assert memory["apps"][APP]["ratios"] == learned
    assert changes(proposal) == {"split": 5, "count": 5}


def test_ratios_when_evaluations_differ_then_are_their_running_mean() -> None:
    memory: Memory = {}
    for growth in (3.0, 0.0, 6.0):  # a window that emits in bursts
        _, memory = ask(seen(150.0, growth=growth, slot_busy_ratio=0.9), memory=memory, preset="strong")
    assert ["split", "count", 3.0, 3] in memory["apps"][APP]["ratios"]


def test_stop_rule_leaves_a_job_without_slack_alone() -> None:
    p = {"split": 5, "count": 5}
    found = seen(0.95 * POWER[5], p=p)
    assert ask(found, p, preset="strong")[0].reason_code == "slack_too_small"
    freed = seen(0.95 * POWER[5], p=p, growth=1.0)
    assert changes(ask(freed, p, preset="strong")[0]) == {"count": 2}


def test_stop_rule_allows_one_step_per_load() -> None:
    p = {"split": 9, "count": 9}
    proposal, memory = ask(seen(400.0, p=p), p, preset="strong")
    p = changes(proposal)
    assert p == {"split": 5, "count": 5}
    again = seen(390.0, p={"split": 5, "count": 5}, growth=2.9)
    proposal, memory = ask(again, {"split": 5, "count": 5}, memory, preset="strong")
    assert (changes(proposal), proposal.reason_code) == ({}, "step_sufficed")


def test_operator_that_vanished_or_cannot_be_sized_has_an_outcome() -> None:
    proposal, _ = ask(seen(400.0), {**P, "rank": 2})
    assert (changes(proposal), proposal.reason_code) == ({}, "operator_vanished")
    p = {"split": 32, "count": 32}
    proposal, _ = ask(seen(1e9, passed=2000.0, p=p), p, preset="strong")
    assert (changes(proposal), proposal.reason_code) == ({}, "at_maximum")


def test_sentence_when_one_of_several_operators_changes_then_names_it() -> None:
    p = {"split": 2, "count": 9}
    proposal, _ = ask(seen(POWER[2] - 1, p=p, growth=0.5), p)
    assert changes(proposal) == {"count": 1}
    assert proposal.sentence.startswith("count: Only 93 rows/s arrived in the last 10 s, and 9 slots")

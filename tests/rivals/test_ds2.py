from __future__ import annotations

from typing import Any

import pytest

from millrace.model.decision import Proposal
from millrace.model.objective import Bounds
from millrace.model.signals import Edge, OperatorSignals, Signals
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

P = {"op1": 1, "op2": 1}
PUBLISHED = {"rates": "producer", "known_arrival_rate": False}

Rates = tuple[float, float, float, float]
"""True processing, true output, observed processing and observed output rate."""


def sized(name: str, rates: Rates, p: int = 1) -> OperatorSignals:
    true_in, true_out, seen_in, seen_out = rates
    return operator(name, p, seen_in, true_in, output_throughput=true_out, rows_out_per_s=seen_out)


def origin(name: str, rates: Rates, arrival: float | None = None) -> OperatorSignals:
    return source(name, arrival, rates[3], output_throughput=rates[1], rows_out_per_s=rates[3])


def ask(seen: Signals, p: dict[str, int] | None = None, **options: Any) -> Proposal:
    return create("ds2", options).propose(seen, deployment(seen.apps[0].slots, p or P), {})[0]


def levels(proposal: Proposal, p: dict[str, int] | None = None) -> tuple[int, ...]:
    changed = {change.operator: change.value for change in proposal.changes}
    return tuple({**(p or P), **changed}.values())


FIXTURES: list[tuple[Rates, Rates, Rates, tuple[int, int], tuple[int, int]]] = [
    ((0, 100, 0, 90), (50, 400, 45, 380), (100, 200, 100, 200), (2, 8), (4, 16)),
    ((0, 200, 0, 90), (40, 700, 15, 380), (99, 200, 100, 200), (5, 36), (10, 71)),
    ((0, 200, 0, 90), (10, 700, 15, 380), (201, 200, 100, 200), (20, 70), (40, 140)),
]
"""DS2's published fixtures: measurements, and the levels with one such source and with two."""


@pytest.mark.parametrize("fixture", FIXTURES)
@pytest.mark.parametrize("sources", [1, 2])
def test_fixture_published_by_ds2_gives_its_levels(
    fixture: tuple[Rates, Rates, Rates, tuple[int, int], tuple[int, int]], sources: int
) -> None:
    of_source, of_op1, of_op2, one, two = fixture
    names = ["source", "other"][:sources]
    told = [origin(name, of_source) for name in names] + [sized("op1", of_op1), sized("op2", of_op2)]
    links = [Edge(name, "op1", of_source[3]) for name in names] + [Edge("op1", "op2", of_op1[3])]
    seen = dag_signals(told, links, bounds=Bounds(1, 200))
    assert levels(ask(seen, **PUBLISHED)) == (one if sources == 1 else two)


def split_in_two(arrival: float = 100.0) -> Signals:
    """Half of op1's output goes to op2, half to op3, and some of it waits between them."""
    told = [
        origin("source", (0, 90, 0, 90), arrival),
        sized("op1", (50, 400, 45, 360)),
        sized("op2", (100, 100, 90, 90)),
        sized("op3", (100, 100, 180, 180)),
    ]
    links = [Edge("source", "op1", 45.0), Edge("op1", "op2", 90.0), Edge("op1", "op3", 180.0)]
    return dag_signals(told, links, bounds=Bounds(1, 64))


def test_rates_of_a_split_output_are_right_only_on_the_consumers_side() -> None:
    p = {"op1": 1, "op2": 1, "op3": 1}
    # the source passed 90 of 100 and op1 received 45 of them: 50 of 100, of which op2 gets 2 per row and op3 4
    assert levels(ask(split_in_two(), p), p) == (1, 1, 2)
    assert levels(ask(split_in_two(), p, rates="producer"), p) == (2, 8, 8)


def test_source_with_ignored_arrival_would_emit_its_output_throughput() -> None:
    p = {"op1": 1, "op2": 1, "op3": 1}
    doubled = split_in_two(arrival=400.0)
    assert levels(ask(doubled, p), p) == (4, 4, 8)
    assert levels(ask(doubled, p, known_arrival_rate=False), p) == (1, 1, 2)


def test_sources_when_they_are_the_bottleneck_then_are_never_scaled() -> None:
    proposal = ask(split_in_two(1e6), {"op1": 1, "op2": 1, "op3": 1})
    assert {c.operator for c in proposal.changes} == {"op1", "op2", "op3"}
    assert all(c.value == 64 for c in proposal.changes)
    assert proposal.predicted["throughput_rows_per_s/op1"] == 50 * 64, "of the level that the bounds allow"


def test_factor_when_set_then_leaves_room() -> None:
    seen = dag_signals(
        [source("lines", 100.0), operator("op1", 2, 100.0, 100.0), operator("op2", 1, 100.0, 120.0)],
        edges("lines>op1 op1>op2", {"lines": 100.0, "op1": 100.0}),
    )
    p = {"op1": 2, "op2": 1}
    assert levels(ask(seen, p), p) == (2, 1)
    assert levels(ask(seen, p, factor=0.3), p) == (3, 2)


def test_decision_thr_when_no_operator_changes_enough_then_nothing_does() -> None:
    told = [source("lines", 100.0), operator("op1", 21, 100.0, 105.0), operator("op2", 1, 100.0, 120.0)]
    seen = dag_signals(told, edges("lines>op1 op1>op2", {"lines": 100.0, "op1": 100.0}), bounds=Bounds(1, 64))
    p = {"op1": 21, "op2": 1}
    assert levels(ask(seen, p), p) == (20, 1)
    held = ask(seen, p, decision_thr=0.1)
    assert (levels(held, p), held.reason_code) == (p_values(p), "below_decision_threshold")


def p_values(p: dict[str, int]) -> tuple[int, ...]:
    return tuple(p.values())


def test_operator_not_measured_stays_and_its_downstream_is_still_reached() -> None:
    told = [source("lines", 100.0), operator("op1", 1, 100.0, None), operator("op2", 1, 100.0, 30.0)]
    seen = dag_signals(told, edges("lines>op1 op1>op2", {"lines": 100.0, "op1": 100.0}))
    assert levels(ask(seen)) == (1, 4)
    assert levels(ask(seen, rates="producer")) == (1, 1)  # its output is unknown


def test_stop_rule_prevents_steps_caused_by_scatter() -> None:
    tuner = create("ds2", {"stop_rule": True})

    def evaluation(p: int, rate: float, ability: float, held: float = 0.0) -> Signals:
        return signals(app_signals(p, rate, capacity(p, ability), backpressured_ratio=held))

    proposal, memory = tuner.propose(evaluation(2, 500.0, 180.0), deployment(2), {})
    assert target(proposal, 2) == 6
    for rate, ability in ((500.0, 499.0), (540.0, 601.0)):
        proposal, memory = tuner.propose(evaluation(6, rate, ability), deployment(6), memory)
        assert (target(proposal, 6), proposal.reason_code) == (6, "step_sufficed")
    assert target(tuner.propose(evaluation(6, 500.0, 499.0, held=0.2), deployment(6), memory)[0], 6) == 7
    assert target(tuner.propose(evaluation(6, 400.0, 500.0), deployment(6), memory)[0], 6) == 5
    assert target(create("ds2", {}).propose(evaluation(6, 500.0, 499.0), deployment(6), memory)[0], 6) == 7


def test_app_that_is_one_operator_is_scaled_by_its_arrival() -> None:
    seen = signals(app_signals(2, 500.0, capacity(2, 180.0), processed_rows_per_s=180.0))
    for options, expected in (({}, 6), ({"known_arrival_rate": False}, 2), ({"rates": "producer"}, 6)):
        assert target(create("ds2", options).propose(seen, deployment(2), {})[0], 2) == expected


def test_sentence_when_an_operator_is_scaled_then_states_rate_and_ability() -> None:
    seen = signals(app_signals(2, 500.0, capacity(2, 180.0)))
    assert create("ds2", {}).propose(seen, deployment(2), {})[0].sentence == (
        "500 rows/s arrived in the last 10 s, and 2 slots can sustain 180 rows/s. "
        "6 slots can sustain 540 rows/s (93 % used)."
    )

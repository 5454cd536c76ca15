"""flow with a large backlog: how soon it decides, and which rates and times it promises."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import ExecutorSize
from millrace.model.objective import Bounds, Objective
from millrace.model.row_wait import throughput
from millrace.model.signals import AppSignals
from millrace.optimizers.conformance.builders import APP, app_signals, capacity, deployment, observed, signals
from millrace.optimizers.conttune.demand import Demand
from millrace.optimizers.registry import create
from tests.optimizers.conttune.flow_cases import POWER, ask, measured, outcome


def waiting(slots: int, **changes: Any) -> AppSignals:
    """An app at launch that takes 5,000 of 200,000 rows per batch: 1.9 s + 2 ms per row on one slot."""
    first = capacity(slots, 500.0 * slots**0.9, fixed_s=1.9, error=100.0)
    values = {"backlog_rows": 200_000, "batch_rows_limit": 5000, "first_batches": first}
    return app_signals(slots, 0.0, None, **(values | changes))


def settling(
    app: AppSignals, slots: int, *, live: bool = True, known: Any = (), memory: Memory | None = None
) -> Proposal:
    current = deployment(slots)
    if live:
        current = replace(current, apps={APP: replace(current.apps[APP], executor=ExecutorSize(1, 1024))})
    seen = signals(app, observed(known) if known else (), Bounds(1, 6), settling=True)
    return create("flow", {}).propose(seen, current, memory or {})[0]


@pytest.mark.parametrize("live", [True, False])
def test_backlog_is_sized_for_before_the_app_has_settled(live: bool) -> None:
    proposal = settling(waiting(1), 1, live=live)
    assert outcome(proposal, 1) == (6, "backlog_to_drain")
    assert proposal.sentence.endswith("The throughput of 1 slot is an estimate: it has not settled yet.")


def test_backlog_at_other_slots_or_of_a_restart_waits_for_settled_figures() -> None:
    assert settling(waiting(1), 2).reason_code == "settling"
    caused = waiting(1, restart_lag_rows=200_000)
    assert settling(caused, 1).reason_code == "settling"
    assert settling(waiting(1, first_batches=None), 1).reason_code == "settling"


def test_backlog_after_a_step_for_it_waits_for_settled_figures() -> None:
    stepped = {"apps": {APP: {"rate": 0.0, "stepped": 0.0, "stepped_up": True}}}
    assert settling(waiting(2), 2, memory=stepped).reason_code == "settling"
    assert outcome(settling(waiting(2), 2), 2) == (6, "backlog_to_drain")


def test_backlog_of_a_settled_app_needs_no_fit() -> None:
    assert outcome(ask(waiting(1), bounds=Bounds(1, 6)), 1) == (6, "backlog_to_drain")


def test_rates_are_those_of_full_batches() -> None:
    ability, fixed_s = 2777.0, 1.9
    app = app_signals(6, 100.0, capacity(6, ability, fixed_s), batch_rows_limit=5000, backlog_rows=60_000)
    proposal = ask(app, {6: [ability] * 5}, bounds=Bounds(1, 6))
    assert throughput(ability, fixed_s, 5000) == pytest.approx(1351, abs=1)
    assert "6 slots can sustain 1,351 rows/s" in proposal.sentence
    assert "6 slots can catch up in about 47 s" in proposal.sentence  # 59,050 rows at 1,351 - 100 rows/s


def test_promise_to_catch_up_counts_fixed_costs_of_all_batches() -> None:
    proposal = settling(waiting(1), 1, known={1: 500.0})
    assert proposal.predicted["throughput_rows_per_s"] > 2000
    out = throughput(proposal.predicted["throughput_rows_per_s"], 1.9, 5000)
    assert f"can sustain {out:,.0f} rows/s" in proposal.sentence
    assert f"catch up in about {200_000 / out:,.0f} s (goal: 60 s)" in proposal.sentence


def test_promise_without_a_limit_pays_the_fixed_cost_once() -> None:
    app = app_signals(4, 0.7 * POWER[4], measured(4, fixed_s=2.0), backlog_rows=15_000)
    proposal = ask(app, POWER, objective=Objective(catch_up_s=60.0))
    assert proposal.reason_code == "backlog_to_drain"
    assert "4 slots can catch up in about" in proposal.sentence and "(goal: 60 s)" in proposal.sentence


def test_backlog_that_does_not_shrink_never_drains() -> None:
    demand = Demand(1349.0, 60_000.0, 60_000.0, Objective(), {6: 1.9}, batch_rows=5000)
    assert demand.drain_s(2777.0, 6) == pytest.approx(60_000 / (throughput(2777.0, 1.9, 5000) - 1349))
    assert demand.drain_s(2700.0, 6) == math.inf

"""What any optimizer of slots must keep to: subclass ``Conformance`` and say how to make yours.

It needs no knowledge of the optimizer: only Signals in, Proposal out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from include.contracts.codec import from_json, to_json
from include.contracts.decision import Memory, Proposal
from include.contracts.protocols import Optimizer
from include.contracts.signals import Bounds, Objective, Signals
from tests.optimizers.builders import APP, app_signals, capacity, deployment, observed, signals

# every subclass runs the same property: that is the point of the suite, and nothing is replayed from a database
SHARED = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.differing_executors])
MAX_SLOTS = 8
RATIOS = st.none() | st.floats(0, 1)
RATES = st.none() | st.floats(0, 5000)
ROWS = st.none() | st.integers(0, 500_000)


@st.composite
def histories(draw: st.DrawFn) -> dict[int, list[float]]:
    """Levels that follow a power law with noise; they may be none at all."""
    unit, exponent = draw(st.floats(5, 500)), draw(st.floats(0.0, 1.0))
    chosen = draw(st.lists(st.integers(1, MAX_SLOTS), max_size=4, unique=True))
    noise = st.floats(0.9, 1.1)
    return {p: [unit * p**exponent * draw(noise) for _ in range(draw(st.integers(1, 3)))] for p in chosen}


@st.composite
def any_signals(draw: st.DrawFn) -> Signals:
    """Signals of any kind that the quality gate would let pass, missing figures included."""
    low = draw(st.integers(1, MAX_SLOTS))
    bounds = Bounds(low, draw(st.integers(low, MAX_SLOTS)))
    slots = draw(st.integers(bounds.min_slots, bounds.max_slots))
    history = draw(histories())
    ran = draw(st.none() | st.integers(1, slots))
    measured = None
    if history and draw(st.booleans()):
        p = draw(st.sampled_from(sorted(history)))
        measured = capacity(p, history[p][-1] * draw(st.floats(0.95, 1.05)), draw(st.floats(0, 10)))
    app = app_signals(
        slots,
        draw(RATES),
        measured,
        parallelism=ran,
        source_splits=draw(st.booleans()),
        processed_rows_per_s=draw(RATES),
        backlog_rows=draw(ROWS),
        restart_lag_rows=draw(ROWS),
        backpressured_ratio=draw(RATIOS),
        slot_busy_ratio=draw(RATIOS),
        batches=draw(st.integers(0, 9)),
    )
    objective = Objective(draw(st.floats(0.3, 1)), draw(st.floats(1, 60)), draw(st.floats(10, 300)))
    return signals(app, observed(history), bounds, objective, settling=draw(st.booleans()))


def target(proposal: Proposal, slots: int) -> int:
    assert len(proposal.changes) <= 1
    return proposal.changes[0].value if proposal.changes else slots


class Conformance:
    """Subclass it, and override ``make``."""

    def make(self) -> Optimizer:
        raise NotImplementedError

    def ask(self, seen: Signals, memory: Memory | None = None) -> tuple[Proposal, Memory]:
        return self.make().propose(seen, deployment(seen.apps[0].slots), memory or {})

    @given(seen=any_signals())
    @settings(SHARED, max_examples=40)
    def test_proposal_when_signals_are_anything_then_is_within_bounds_and_says_why(self, seen: Signals) -> None:
        proposal, _ = self.ask(seen)
        slots = seen.apps[0].slots
        assert seen.bounds.min_slots <= target(proposal, slots) <= seen.bounds.max_slots
        for change in proposal.changes:
            assert (change.app, change.field, change.before) == (APP, "slots", slots)
            assert change.value != slots
        assert proposal.reason_code and proposal.reason_code == proposal.reason_code.lower()
        assert proposal.sentence.endswith(".") and "{" not in proposal.sentence and "nan" not in proposal.sentence

    @given(seen=any_signals())
    @settings(SHARED, max_examples=25)
    def test_figures_when_told_then_are_finite_and_columns_are_of_one_length(self, seen: Signals) -> None:
        proposal, _ = self.ask(seen)
        assert all(math.isfinite(v) for v in proposal.predicted.values())
        for columns in (proposal.curve, proposal.training):
            assert len({len(c) for c in columns.values()}) <= 1
            assert all(math.isfinite(v) for c in columns.values() for v in c)

    @given(looks=st.lists(any_signals(), min_size=2, max_size=3))
    @settings(SHARED, max_examples=12)
    def test_memory_when_stored_as_json_between_looks_then_gives_the_same_proposals(
        self, looks: Sequence[Signals]
    ) -> None:
        kept: Memory = {}
        stored: Any = {}
        for seen in looks:
            proposal, kept = self.ask(seen, kept)
            again, told = self.ask(from_json(Signals, to_json(seen)), stored)
            assert to_json(again) == to_json(proposal)
            stored = json.loads(json.dumps(told, allow_nan=False))

    @given(seen=any_signals())
    @settings(SHARED, max_examples=12)
    def test_proposal_when_asked_twice_then_is_the_same(self, seen: Signals) -> None:
        optimizer, current = self.make(), deployment(seen.apps[0].slots)
        first = optimizer.propose(seen, current, {})
        assert to_json(optimizer.propose(seen, current, {})) == to_json(first)
        assert to_json(self.ask(seen)) == to_json(first), "the object must not remember: Memory does"

    @pytest.mark.parametrize(
        "junk", [{"operators": 7}, {"operators": {APP: {"p_max": "x", "fixed_s": [1]}}}, {"x": None}]
    )
    def test_memory_when_not_understood_then_is_as_if_empty(self, junk: Memory) -> None:
        seen = signals(app_signals(2, 900.0, capacity(2, 200.0)))
        assert self.ask(seen, junk)[0] == self.ask(seen)[0]

    @given(seen=any_signals(), missing=st.sampled_from(["rates", "capacity", "all"]))
    @settings(SHARED, max_examples=40)
    def test_slots_when_figures_are_missing_then_are_never_taken_away(self, seen: Signals, missing: str) -> None:
        app = seen.apps[0]
        if missing in ("rates", "all"):
            app = replace(app, arrival_rows_per_s=None, processed_rows_per_s=None)
        if missing in ("capacity", "all"):
            app, seen = replace(app, capacity=None), replace(seen, observations=())
        seen = replace(seen, apps=(app,), settling=False)
        assert target(self.ask(seen)[0], app.slots) >= app.slots

    @pytest.mark.parametrize(
        "wrong",
        [
            {"arrival_rows_per_s": -1.0, "processed_rows_per_s": -1.0},
            {"arrival_rows_per_s": math.nan, "processed_rows_per_s": math.inf},
            {"backlog_rows": -5},
            {"capacity": capacity(4, -3.0)},
            {"capacity": capacity(4, 300.0, fixed_s=-1.0)},
            {"slot_busy_ratio": 7.0},
            {"backpressured_ratio": -0.5},
        ],
    )
    def test_slots_when_a_figure_is_impossible_then_stay_and_the_figure_is_named(self, wrong: dict[str, Any]) -> None:
        app = app_signals(4, 1.0, capacity(4, 300.0), slot_busy_ratio=0.01)
        proposal, _ = self.ask(signals(replace(app, **wrong), observed({1: 100.0, 4: 300.0})))
        assert proposal.changes == ()

    def test_slots_when_the_app_is_settling_then_stay(self) -> None:
        app = app_signals(4, 1.0, capacity(4, 300.0), slot_busy_ratio=0.01)
        proposal, _ = self.ask(signals(app, observed({1: 100.0, 4: 300.0}), settling=True))
        assert proposal.changes == ()

    def test_slots_when_the_pipeline_is_stopped_or_the_app_unknown_then_stay(self) -> None:
        app = app_signals(4, 1.0, capacity(4, 300.0), slot_busy_ratio=0.01)
        seen = signals(app, observed({1: 100.0, 4: 300.0}))
        assert self.make().propose(seen, deployment(4, running=False), {})[0].changes == ()
        stranger = replace(seen, apps=(replace(app, app="stranger"),))
        assert self.make().propose(stranger, deployment(4), {})[0].changes == ()

    def test_proposal_when_no_app_was_measured_then_is_a_hold(self) -> None:
        seen = replace(signals(app_signals(1, 1.0, None)), apps=())
        assert self.make().propose(seen, deployment(1), {})[0].changes == ()

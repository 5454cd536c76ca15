"""What any optimizer of parallelism must keep to: subclass ``Conformance`` and say how to make yours.

It needs no knowledge of the optimizer: only Signals in, Proposal out. Signals are of an app as one operator, and of a
DAG of operators with a p each.
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

from include.model.codec import from_json, to_json
from include.model.decision import Memory, Proposal
from include.model.deployment import Deployment
from include.model.protocols import Optimizer
from include.model.signals import Bounds, Edge, Objective, OperatorSignals, Signals
from tests.optimizers.builders import (
    APP,
    app_signals,
    capacity,
    dag_signals,
    deployment,
    observed,
    operator,
    signals,
    source,
)

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


DAGS = {
    "chain": ("lines", "lines>split split>count"),
    "join": ("left right", "left>filter filter>join right>join join>sink"),
    "diamond": ("events", "events>parse parse>left parse>right left>merge right>merge"),
}
"""Sources and edges of some jobs."""


@st.composite
def any_dags(draw: st.DrawFn) -> tuple[Signals, dict[str, int]]:
    """Signals of a DAG of any kind that the quality gate would let pass, and the p of its operators."""
    sources, pairs = draw(st.sampled_from(sorted(DAGS.values())))
    links = [tuple(pair.split(">")) for pair in pairs.split()]
    sized = list(dict.fromkeys(name for link in links for name in link if name not in sources.split()))
    low = draw(st.integers(1, MAX_SLOTS))
    bounds = Bounds(low, draw(st.integers(low, MAX_SLOTS)))
    parallelism = {name: draw(st.integers(bounds.min_slots, bounds.max_slots)) for name in sized}
    history, told = {name: draw(histories()) for name in sized}, []
    for name in sized:
        known = history[name].get(parallelism[name])
        ability = draw(st.none() | st.floats(1, 5000)) if known is None else known[-1] * draw(st.floats(0.95, 1.05))
        changes = {"busy_ratio": draw(RATIOS), "backpressured_ratio": draw(RATIOS), "output_ability": draw(RATES)}
        told.append(operator(name, draw(st.none() | st.just(parallelism[name])), draw(RATES), ability, **changes))
    told += [source(name, draw(RATES), draw(RATES), backpressured_ratio=draw(RATIOS)) for name in sources.split()]
    points = [p for name in sized for p in observed(history[name], operator=f"{APP}/{name}")]
    seen = dag_signals(
        draw(st.permutations(told)),
        [Edge(producer, consumer, draw(RATES)) for producer, consumer in draw(st.permutations(links))],
        tuple(points),
        bounds=bounds,
        settling=draw(st.booleans()),
        backpressured_ratio=draw(RATIOS),
        slot_busy_ratio=draw(RATIOS),
        backlog_rows=draw(ROWS),
        backlog_growth_rows_per_s=draw(st.none() | st.floats(-5000, 5000)),
    )
    return seen, parallelism


def healthy_dag() -> tuple[Signals, dict[str, int]]:
    """A job of which every operator could do with less."""
    parallelism = {"split": 4, "count": 4}
    told = (source("lines", 10.0), *(operator(name, 4, 10.0, 300.0) for name in parallelism))
    links = (Edge("lines", "split", 10.0), Edge("split", "count", 10.0))
    points = [p for name in parallelism for p in observed({1: 100.0, 4: 300.0}, operator=f"{APP}/{name}")]
    return dag_signals(told, links, tuple(points), slot_busy_ratio=0.03), parallelism


def changed(seen: Signals, name: str, **values: Any) -> Signals:
    """The signals with figures of one operator changed."""
    app = seen.apps[0]
    operators = tuple(replace(o, **values) if o.operator == name else o for o in app.operators)
    return replace(seen, apps=(replace(app, operators=operators),))


def without_figures(told: OperatorSignals, missing: str) -> OperatorSignals:
    if missing in ("rates", "all"):
        told = replace(told, rows_in_per_s=None, rows_out_per_s=None, output_ability=None, arrival_rows_per_s=None)
    return replace(told, processing_ability=None) if missing in ("abilities", "all") else told


def target(proposal: Proposal, slots: int) -> int:
    assert len(proposal.changes) <= 1
    return proposal.changes[0].value if proposal.changes else slots


def _spoilt(data: st.DataObject, value: Any, junk: Any) -> Any:
    """A stored value with something in it replaced."""
    if not value or not isinstance(value, dict | list) or data.draw(st.integers(0, 3)) == 0:
        return junk
    if isinstance(value, list):
        at = data.draw(st.integers(0, len(value) - 1))
        return [_spoilt(data, v, junk) if i == at else v for i, v in enumerate(value)]
    key = data.draw(st.sampled_from(sorted(value)))
    return {k: _spoilt(data, v, junk) if k == key else v for k, v in value.items()}


class Conformance:
    """Subclass it, and override ``make``."""

    def make(self) -> Optimizer:
        raise NotImplementedError

    def ask(self, seen: Signals, memory: Memory | None = None) -> tuple[Proposal, Memory]:
        return self.make().propose(seen, deployment(seen.apps[0].slots), memory or {})

    def ask_dag(
        self, seen: Signals, parallelism: dict[str, int], memory: Memory | None = None
    ) -> tuple[Proposal, Memory]:
        return self.make().propose(seen, self.deployed(seen, parallelism), memory or {})

    def deployed(self, seen: Signals, parallelism: dict[str, int], *, running: bool = True) -> Deployment:
        return deployment(seen.apps[0].slots, parallelism, running=running)

    @given(seen=any_signals())
    @settings(SHARED, max_examples=30)
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

    @given(data=st.data())
    @settings(SHARED, max_examples=15)
    def test_memory_when_it_holds_anything_then_is_survived(self, data: st.DataObject) -> None:
        seen, parallelism = healthy_dag()
        kept: Any = self.ask_dag(seen, parallelism)[1]
        junk = data.draw(st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=3))
        for _ in range(data.draw(st.integers(1, 3))):
            kept = _spoilt(data, kept, junk)
        proposal, memory = self.ask_dag(seen, parallelism, kept if isinstance(kept, dict) else {})
        assert proposal.reason_code
        json.dumps(memory, allow_nan=False)

    @given(seen=any_signals(), missing=st.sampled_from(["rates", "capacity", "all"]))
    @settings(SHARED, max_examples=30)
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

    # ---- a DAG of operators

    @given(case=any_dags())
    @settings(SHARED, max_examples=25)
    def test_dag_when_signals_are_anything_then_each_change_is_an_operators_and_within_bounds(
        self, case: tuple[Signals, dict[str, int]]
    ) -> None:
        seen, parallelism = case
        proposal, memory = self.ask_dag(seen, parallelism)
        assert len({c.operator for c in proposal.changes}) == len(proposal.changes)
        for change in proposal.changes:
            assert (change.app, change.field) == (APP, "parallelism")
            assert change.operator is not None and change.before == parallelism[change.operator] != change.value
            assert seen.bounds.min_slots <= change.value <= seen.bounds.max_slots
        assert proposal.reason_code and proposal.reason_code == proposal.reason_code.lower()
        assert proposal.sentence.endswith(".") and "{" not in proposal.sentence and "nan" not in proposal.sentence
        assert all(math.isfinite(v) for v in proposal.predicted.values())
        for columns in (proposal.curve, proposal.training):
            assert len({len(c) for c in columns.values()}) <= 1
            assert all(math.isfinite(v) for c in columns.values() for v in c)
        json.dumps(memory, allow_nan=False)

    @given(cases=st.lists(any_dags(), min_size=2, max_size=2))
    @settings(SHARED, max_examples=8)
    def test_dag_when_memory_is_stored_as_json_between_looks_then_proposals_are_the_same(
        self, cases: Sequence[tuple[Signals, dict[str, int]]]
    ) -> None:
        kept: Memory = {}
        stored: Any = {}
        for seen, parallelism in cases:
            proposal, kept = self.ask_dag(seen, parallelism, kept)
            again, told = self.ask_dag(from_json(Signals, to_json(seen)), parallelism, stored)
            assert to_json(again) == to_json(proposal)
            stored = json.loads(json.dumps(told, allow_nan=False))

    @given(case=any_dags(), missing=st.sampled_from(["rates", "abilities", "all"]))
    @settings(SHARED, max_examples=20)
    def test_dag_when_figures_are_missing_then_no_p_is_taken_away(
        self, case: tuple[Signals, dict[str, int]], missing: str
    ) -> None:
        seen, parallelism = case
        app = seen.apps[0]
        if missing in ("rates", "all"):
            app = replace(app, arrival_rows_per_s=None, processed_rows_per_s=None, edges=())
        if missing in ("abilities", "all"):
            seen = replace(seen, observations=())
        app = replace(app, operators=tuple(without_figures(o, missing) for o in app.operators))
        proposal, _ = self.ask_dag(replace(seen, apps=(app,), settling=False), parallelism)
        assert all(change.value > change.before for change in proposal.changes)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"rows_in_per_s": -1.0},
            {"rows_in_per_s": math.nan},
            {"processing_ability": 0.0},
            {"processing_ability": math.inf},
            {"processing_ability": 5e-324},
            {"rows_in_per_s": 1e300},
            {"output_ability": -2.0},
            {"busy_ratio": 7.0},
            {"backpressured_ratio": -0.5},
            {"parallelism": 0},
        ],
    )
    def test_dag_when_a_figure_is_impossible_then_nothing_changes_and_the_operator_is_named(
        self, wrong: dict[str, Any]
    ) -> None:
        seen, parallelism = healthy_dag()
        proposal, _ = self.ask_dag(changed(seen, "split", **wrong), parallelism)
        assert (proposal.changes, proposal.reason_code) == ((), "bad_signals")
        assert f"split.{next(iter(wrong))}" in proposal.sentence

    def test_dag_when_an_edges_rate_is_impossible_then_nothing_changes_and_the_edge_is_named(self) -> None:
        seen, parallelism = healthy_dag()
        app = replace(seen.apps[0], edges=(Edge("lines", "split", -1.0),))
        proposal, _ = self.ask_dag(replace(seen, apps=(app,)), parallelism)
        assert (proposal.changes, proposal.reason_code) == ((), "bad_signals")
        assert "lines>split" in proposal.sentence

    @given(data=st.data())
    @settings(SHARED, max_examples=25)
    def test_dag_when_figures_are_at_the_edge_of_what_is_possible_then_a_proposal_is_made(
        self, data: st.DataObject
    ) -> None:
        edge = st.sampled_from([0.0, 5e-324, 1e-12, 1.0, 1e15])
        ability = st.sampled_from([1e-9, 1.0, 1e15])
        seen, parallelism = healthy_dag()
        app = seen.apps[0]
        for name in ("lines", *parallelism):
            own = {
                "rows_in_per_s": data.draw(edge),
                "output_ability": data.draw(edge),
                "rows_out_per_s": data.draw(edge),
            }
            if name in parallelism:
                own["processing_ability"] = data.draw(ability)
            else:
                own["arrival_rows_per_s"] = data.draw(edge)
            seen = changed(seen, name, **own)
        links = tuple(replace(e, rows_per_s=data.draw(edge)) for e in app.edges)
        state = {"backpressured_ratio": data.draw(st.sampled_from([0.0, 1.0])), "slot_busy_ratio": data.draw(RATIOS)}
        seen = replace(seen, apps=(replace(seen.apps[0], edges=links, **state),))
        proposal, memory = self.ask_dag(seen, parallelism)
        assert all(math.isfinite(v) for v in proposal.predicted.values())
        assert all(1 <= change.value <= MAX_SLOTS for change in proposal.changes)
        json.dumps(memory, allow_nan=False)

    def test_dag_when_an_operator_vanished_then_nothing_changes_and_it_is_named(self) -> None:
        seen, parallelism = healthy_dag()
        proposal, _ = self.ask_dag(seen, {**parallelism, "rank": 2})
        assert (proposal.changes, proposal.reason_code) == ((), "operator_vanished")
        assert "rank" in proposal.sentence

    def test_dag_when_it_is_settling_or_stopped_then_nothing_changes(self) -> None:
        seen, parallelism = healthy_dag()
        assert self.ask_dag(replace(seen, settling=True), parallelism)[0].changes == ()
        stopped = self.deployed(seen, parallelism, running=False)
        assert self.make().propose(seen, stopped, {})[0].changes == ()

    def test_dag_when_p_is_outside_new_bounds_then_is_brought_inside(self) -> None:
        seen, _ = healthy_dag()
        found = self.ask_dag(replace(seen, bounds=Bounds(2, 3)), {"split": 1, "count": 4})[0]
        assert {c.operator: c.value for c in found.changes} == {"split": 2, "count": 3}

    def test_dag_when_edges_run_in_a_circle_then_a_proposal_is_made_all_the_same(self) -> None:
        seen, parallelism = healthy_dag()
        app = replace(
            seen.apps[0], edges=(*seen.apps[0].edges, Edge("count", "split", 3.0), Edge("split", "split", 1.0))
        )
        assert self.ask_dag(replace(seen, apps=(app,)), parallelism)[0].sentence.endswith(".")

"""Tests that every optimizer must pass: subclass a suite, name the optimizer, and run pytest.

    class TestFollow(TunerConformance):
        name = "follow"

``TunerConformance`` is for tuners that size an app as a whole, ``DagConformance`` for those that also size operators
with a p of their own, ``OptimizerConformance`` for any other role. The suites treat the optimizer as a black box:
Signals in, Proposal out. They need pytest and Hypothesis.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.model.codec import from_json, to_json
from millrace.model.objective import Bounds
from millrace.model.signals import Edge, OperatorSignals, Signals
from millrace.optimizers.api import Memory, MillraceError, Optimizer, Proposal
from millrace.optimizers.conformance.builders import app_signals, capacity, deployment, observed, signals, target
from millrace.optimizers.conformance.situations import (
    RATIOS,
    Situation,
    apps,
    dags,
    healthy_dag,
    spoil,
    spoil_figure,
)
from millrace.optimizers.registry import Role, create

__all__ = ["DagConformance", "OptimizerConformance", "TunerConformance"]

# every subclass runs the same property, which is the purpose of the suite; no examples are replayed from a database
SHARED = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow, HealthCheck.data_too_large],
)
SIZES = frozenset({"slots", "parallelism"})
"""Fields of a Deployment to which bounds apply."""
JUNK = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=3)


class OptimizerConformance:
    """Suite for any optimizer.

    Attributes:
        name: Its name in the registry.
        role: Its role in the registry.
        section: Its options, or the section of its role.
        fields: Fields of a Deployment that it may propose to change.
        option_names: Options that must each refuse a value of a wrong type; by default those of its class.
        situations: Situations to ask it in.
    """

    name: ClassVar[str]
    role: ClassVar[Role] = Role.TUNER
    section: ClassVar[Mapping[str, Any]] = {}
    fields: ClassVar[frozenset[str]] = frozenset({"slots"})
    option_names: ClassVar[Sequence[str]] = ()
    situations: ClassVar[st.SearchStrategy[Situation]] = apps()

    def make(self, **options: Any) -> Optimizer:
        """Return a new optimizer, with further options."""
        if self.role in (Role.TUNER, Role.PLACEMENT, Role.PARTITIONING, Role.MEMORY, Role.BATCHES):
            section = {**self.section, **options}
        else:
            section = {**self.section, "options": {**self.section.get("options", {}), **options}}
        return create(self.name, section, self.role)

    def propose(self, situation: Situation, memory: Memory | None = None) -> tuple[Proposal, Memory]:
        return self.make().propose(*situation, memory or {})

    def check(self, proposal: Proposal, seen: Signals) -> None:
        """Assert what holds for any proposal: its optimizer, a reason code, a readable sentence, allowed sizes."""
        assert proposal.optimizer == self.name
        assert proposal.reason_code and proposal.reason_code == proposal.reason_code.lower()
        assert "{" not in proposal.sentence and "nan" not in proposal.sentence.split()
        assert proposal.sentence or not proposal.changes, "a change is explained"
        assert all(c.value in seen.bounds for c in proposal.changes if c.field in SIZES)
        assert all(math.isfinite(v) for v in proposal.predicted.values())
        for columns in (proposal.curve, proposal.training):
            assert len({len(c) for c in columns.values()}) <= 1
            assert all(math.isfinite(v) for c in columns.values() for v in c)

    @given(data=st.data())
    @settings(SHARED, max_examples=15)
    def test_proposal_changes_own_fields_only_and_says_why(self, data: st.DataObject) -> None:
        """Changes are of its fields, from the set value to another one, and the proposal can be read and stored."""
        seen, current = data.draw(self.situations)
        proposal, memory = self.propose((seen, current))
        self.check(proposal, seen)
        for change in proposal.changes:
            assert change.field in self.fields
            assert change.app in current.apps and change.before == current.value(change) != change.value
        assert current.with_changes(proposal.changes).content != current.content or not proposal.changes
        json.dumps(memory, allow_nan=False)

    @given(data=st.data())
    @settings(SHARED, max_examples=6)
    def test_proposal_is_the_same_when_asked_again(self, data: st.DataObject) -> None:
        """The optimizer is pure: the object remembers nothing, and randomness has a seed."""
        situation, optimizer = data.draw(self.situations), self.make()
        first = optimizer.propose(*situation, {})
        assert to_json(optimizer.propose(*situation, {})) == to_json(first)
        assert to_json(self.propose(situation)) == to_json(first)

    @given(data=st.data())
    @settings(SHARED, max_examples=6)
    def test_memory_survives_json_between_evaluations(self, data: st.DataObject) -> None:
        kept: Memory = {}
        stored: Any = {}
        for seen, current in data.draw(st.lists(self.situations, min_size=2, max_size=3)):
            proposal, kept = self.propose((seen, current), kept)
            again, memory = self.propose((from_json(Signals, to_json(seen)), current), stored)
            assert to_json(again) == to_json(proposal)
            stored = json.loads(json.dumps(memory, allow_nan=False))

    @given(data=st.data())
    @settings(SHARED, max_examples=8)
    def test_memory_that_holds_anything_is_survived(self, data: st.DataObject) -> None:
        """A damaged memory, or one of another version, never prevents an answer."""
        situation = data.draw(self.situations)
        memory: Any = json.loads(json.dumps(self.propose(situation)[1]))
        for _ in range(data.draw(st.integers(1, 3))):
            memory = spoil(data.draw, memory, data.draw(JUNK))
        situation = data.draw(self.situations)
        proposal, memory = self.propose(situation, memory if isinstance(memory, dict) else {})
        self.check(proposal, situation[0])
        json.dumps(memory, allow_nan=False)

    @given(data=st.data())
    @settings(SHARED, max_examples=15)
    def test_figures_that_are_missing_or_impossible_are_survived(self, data: st.DataObject) -> None:
        """Bad telemetry leads to a proposal with a reason, never to an exception."""
        seen, current = data.draw(self.situations)
        for _ in range(data.draw(st.integers(1, 3))):
            seen = spoil_figure(data.draw, seen)
        proposal, memory = self.propose((seen, current))
        self.check(proposal, seen)
        json.dumps(memory, allow_nan=False)

    def test_unknown_option_is_refused_with_those_that_exist(self) -> None:
        with pytest.raises(MillraceError) as caught:
            self.make(no_such_option=1)
        assert caught.value.key.endswith("options.no_such_option")
        assert all(name in caught.value.allowed for name in self._option_names()) and caught.value.remedy

    def test_option_of_a_wrong_type_is_refused_with_its_range(self) -> None:
        for name in self._option_names():
            wrong = frozenset({"neither a number, a word, a list nor a switch"})
            with pytest.raises(MillraceError) as caught:
                self.make(**{name: wrong})
            assert caught.value.key.endswith(f"options.{name}")
            assert caught.value.value == wrong and caught.value.allowed and caught.value.remedy

    def _option_names(self) -> Sequence[str]:
        options = getattr(type(self.make()), "Options", None)
        return self.option_names or tuple(options.model_fields if options else ())


class TunerConformance(OptimizerConformance):
    """Suite for a tuner that sizes an app as a whole."""

    def check(self, proposal: Proposal, seen: Signals) -> None:
        """Assert also that each size changes once, and that a hold is explained too."""
        super().check(proposal, seen)
        assert len({(c.app, c.operator) for c in proposal.changes}) == len(proposal.changes)
        assert proposal.sentence.endswith(".")

    @given(situation=apps(), missing=st.sampled_from(["rates", "capacity", "all"]))
    @settings(SHARED, max_examples=15)
    def test_slots_are_never_taken_away_on_missing_figures(self, situation: Situation, missing: str) -> None:
        seen, current = situation
        app = seen.apps[0]
        if missing in ("rates", "all"):
            app = replace(app, arrival_rows_per_s=None, processed_rows_per_s=None)
        if missing in ("capacity", "all"):
            app, seen = replace(app, capacity=None), replace(seen, observations=())
        seen = replace(seen, apps=(app,), settling=False)
        assert all(change.value > change.before for change in self.propose((seen, current))[0].changes)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"arrival_rows_per_s": -1.0, "processed_rows_per_s": -1.0},
            {"arrival_rows_per_s": math.nan, "processed_rows_per_s": math.inf},
            {"capacity": capacity(4, -3.0)},
        ],
    )
    def test_slots_stay_on_impossible_figures(self, wrong: Mapping[str, Any]) -> None:
        """An impossible load or ability decides nothing."""
        seen, current = self.idle()
        seen = replace(seen, apps=(replace(seen.apps[0], **wrong),))
        assert self.propose((seen, current))[0].changes == ()

    def test_slots_stay_while_the_app_settles_is_stopped_or_unknown(self) -> None:
        """Figures of another state, or unmeasured ones, decide nothing."""
        seen, current = self.idle()
        stranger = replace(seen, apps=(replace(seen.apps[0], app="stranger"),))
        for situation in (
            (replace(seen, settling=True), current),
            (seen, replace(current, running=False)),
            (stranger, current),
            (replace(seen, apps=()), current),
        ):
            assert self.propose(situation)[0].changes == ()

    @pytest.mark.parametrize("step", [1, 2, 4])
    def test_slots_are_multiples_of_an_executors_cores(self, step: int) -> None:
        """The step holds even if earlier executors had other cores and 3 and 7 slots were measured."""
        bounds, nothing = Bounds(step, 4 * step, step), cast(Memory, {})
        for rate, slots, is_measured in product((10.0, 5000.0), (step, 4 * step), (True, False)):
            now, memory = slots, nothing
            for _ in range(2):
                ability = 100.0 * now
                busy, late = min(1.0, rate / ability), float(rate > ability)
                measured = capacity(now, ability) if is_measured else None
                app = app_signals(now, rate, measured, slot_busy_ratio=busy, backpressured_ratio=late)
                seen = signals(app, observed({3: 300.0, 7: 700.0}), bounds)
                proposal, memory = self.propose((seen, deployment(now)), memory)
                self.check(proposal, seen)
                now = target(proposal, now)

    def idle(self) -> Situation:
        app = app_signals(4, 1.0, capacity(4, 300.0), slot_busy_ratio=0.01)
        return signals(app, observed({1: 100.0, 4: 300.0})), deployment(4)


class DagConformance(TunerConformance):
    """Suite for a tuner that sizes apps, and operators that have a p of their own."""

    fields = frozenset({"slots", "parallelism"})
    situations = apps() | dags()

    @pytest.mark.parametrize(
        "junk", [{"operators": 7}, {"apps": {"delays": {"p_max": "x", "fixed_s": [1]}}}, {"apps": 7}, {"x": None}]
    )
    def test_memory_that_is_not_understood_is_as_if_empty(self, junk: Memory) -> None:
        situation = signals(app_signals(2, 900.0, capacity(2, 200.0))), deployment(2)
        assert self.propose(situation, junk)[0] == self.propose(situation)[0]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"backlog_rows": -5},
            {"capacity": capacity(4, 300.0, fixed_s=-1.0)},
            {"slot_busy_ratio": 7.0},
            {"backpressured_ratio": -0.5},
        ],
    )
    def test_slots_stay_on_any_impossible_figure(self, wrong: Mapping[str, Any]) -> None:
        """Unused figures count too: if one is impossible, the others cannot be trusted."""
        self.test_slots_stay_on_impossible_figures(wrong)

    @given(situation=dags(), missing=st.sampled_from(["rates", "abilities", "all"]))
    @settings(SHARED, max_examples=10)
    def test_no_parallelism_is_taken_away_on_missing_figures(self, situation: Situation, missing: str) -> None:
        seen, current = situation
        app = seen.apps[0]
        if missing in ("rates", "all"):
            app = replace(app, arrival_rows_per_s=None, processed_rows_per_s=None, edges=())
        if missing in ("abilities", "all"):
            seen = replace(seen, observations=())
        app = replace(app, operators=tuple(_without_figures(o, missing) for o in app.operators))
        proposal, _ = self.propose((replace(seen, apps=(app,), settling=False), current))
        assert all(change.value > change.before for change in proposal.changes)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"rows_in_per_s": -1.0},
            {"rows_in_per_s": math.nan},
            {"throughput": 0.0},
            {"throughput": math.inf},
            {"throughput": 5e-324},
            {"rows_in_per_s": 1e300},
            {"output_throughput": -2.0},
            {"busy_ratio": 7.0},
            {"backpressured_ratio": -0.5},
            {"parallelism": 0},
        ],
    )
    def test_impossible_figure_of_an_operator_is_named(self, wrong: Mapping[str, Any]) -> None:
        seen, current = healthy_dag()
        proposal, _ = self.propose((with_operator(seen, "split", **wrong), current))
        assert (proposal.changes, proposal.reason_code) == ((), "bad_signals")
        assert f"split.{next(iter(wrong))}" in proposal.sentence

    def test_impossible_rate_of_an_edge_is_named(self) -> None:
        seen, current = healthy_dag()
        app = replace(seen.apps[0], edges=(Edge("lines", "split", -1.0),))
        proposal, _ = self.propose((replace(seen, apps=(app,)), current))
        assert (proposal.changes, proposal.reason_code) == ((), "bad_signals")
        assert "lines>split" in proposal.sentence

    @given(data=st.data())
    @settings(SHARED, max_examples=15)
    def test_figures_at_the_edge_of_the_possible_are_survived(self, data: st.DataObject) -> None:
        edge = st.sampled_from([0.0, 5e-324, 1e-12, 1.0, 1e15])
        ability = st.sampled_from([1e-9, 1.0, 1e15])
        seen, current = healthy_dag()
        for name in ("lines", "split", "count"):
            own = {figure: data.draw(edge) for figure in ("rows_in_per_s", "output_throughput", "rows_out_per_s")}
            extreme = ("arrival_rows_per_s", edge) if name == "lines" else ("throughput", ability)
            seen = with_operator(seen, name, **own, **{extreme[0]: data.draw(extreme[1])})
        links = tuple(replace(e, rows_per_s=data.draw(edge)) for e in seen.apps[0].edges)
        app = replace(
            seen.apps[0],
            edges=links,
            backpressured_ratio=data.draw(st.sampled_from([0.0, 1.0])),
            slot_busy_ratio=data.draw(RATIOS),
        )
        proposal, memory = self.propose((replace(seen, apps=(app,)), current))
        self.check(proposal, seen)
        json.dumps(memory, allow_nan=False)

    def test_operator_that_vanished_is_named(self) -> None:
        seen, current = healthy_dag()
        app = next(iter(current.apps.values()))
        grown = replace(app, parallelism={**app.parallelism, "rank": 2})
        proposal, _ = self.propose((seen, replace(current, apps=dict.fromkeys(current.apps, grown))))
        assert (proposal.changes, proposal.reason_code) == ((), "operator_vanished")
        assert "rank" in proposal.sentence

    def test_operators_stay_while_the_job_settles_or_is_stopped(self) -> None:
        seen, current = healthy_dag()
        assert self.propose((replace(seen, settling=True), current))[0].changes == ()
        assert self.propose((seen, replace(current, running=False)))[0].changes == ()

    def test_parallelism_outside_new_bounds_is_brought_inside(self) -> None:
        seen, _ = healthy_dag()
        current = deployment(seen.apps[0].slots, {"split": 1, "count": 4})
        proposal, _ = self.propose((replace(seen, bounds=Bounds(2, 3)), current))
        assert {c.operator: c.value for c in proposal.changes} == {"split": 2, "count": 3}

    def test_edges_in_a_circle_are_survived(self) -> None:
        seen, current = healthy_dag()
        circle = (*seen.apps[0].edges, Edge("count", "split", 3.0), Edge("split", "split", 1.0))
        proposal, _ = self.propose((replace(seen, apps=(replace(seen.apps[0], edges=circle),)), current))
        assert proposal.sentence.endswith(".")


def with_operator(seen: Signals, name: str, **figures: Any) -> Signals:
    """Return signals with figures of one operator changed."""
    app = seen.apps[0]
    operators = tuple(replace(o, **figures) if o.operator == name else o for o in app.operators)
    return replace(seen, apps=(replace(app, operators=operators),))


def _without_figures(operator: OperatorSignals, missing: str) -> OperatorSignals:
    if missing in ("rates", "all"):
        operator = replace(
            operator, rows_in_per_s=None, rows_out_per_s=None, output_throughput=None, arrival_rows_per_s=None
        )
    return replace(operator, throughput=None) if missing in ("abilities", "all") else operator

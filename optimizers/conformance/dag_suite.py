"""Suite for a tuner that sizes apps, and operators that have a p of their own."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.objective import Bounds
from millrace.model.signals import Edge, OperatorSignals
from millrace.optimizers.api import Memory
from millrace.optimizers.conformance.builders import app_signals, capacity, deployment, signals, with_operator
from millrace.optimizers.conformance.optimizer_suite import SHARED
from millrace.optimizers.conformance.situations import RATIOS, Situation, apps, dags, healthy_dag
from millrace.optimizers.conformance.tuner_suite import TunerConformance


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


def _without_figures(operator: OperatorSignals, missing: str) -> OperatorSignals:
    if missing in ("rates", "all"):
        operator = replace(
            operator, rows_in_per_s=None, rows_out_per_s=None, output_throughput=None, arrival_rows_per_s=None
        )
    return replace(operator, throughput=None) if missing in ("abilities", "all") else operator

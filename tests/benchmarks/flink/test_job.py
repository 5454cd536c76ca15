"""How a period's signals become the vertices of a Flink job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.flink.job import vertices
from millrace.model.errors import MillraceError
from millrace.model.signals import AppSignals, Edge
from tests.benchmarks.flink.fluid_job import FluidJob


def measured() -> AppSignals:
    return FluidJob(100.0, {"map": 2, "sink": 1}).period().apps[0]


def test_vertices_when_a_source_is_not_sized_then_it_is_shown_and_excluded() -> None:
    source, middle, sink = vertices(measured(), {"map": 2, "sink": 1})
    assert (source["sized"], source["inputs"], source["rows_in_per_s"]) == (False, [], 100.0)
    assert (middle["sized"], middle["inputs"], middle["parallelism"]) == (True, ["source"], 2)
    assert (sink["inputs"], sink["rows_in_per_s"]) == (["map"], 150.0)


def test_vertices_when_nothing_is_known_then_says_null_and_never_nan() -> None:
    app = measured()
    blind = replace(app.operators[1], busy_ratio=float("nan"), rows_in_per_s=None)
    vertex = vertices(replace(app, operators=(app.operators[0], blind)), {"map": 2})[1]
    assert vertex["busy_ratio"] is None and vertex["rows_in_per_s"] is None


def test_vertices_when_a_source_reports_only_its_output_then_that_is_its_input() -> None:
    app = measured()
    source = replace(app.operators[0], rows_in_per_s=None)
    assert vertices(replace(app, operators=(source,)), {})[0]["rows_in_per_s"] == 100.0


def test_vertices_when_an_operator_was_not_measured_then_no_edge_names_it() -> None:
    app = replace(measured(), operators=measured().operators[1:])
    assert [v["inputs"] for v in vertices(app, {"map": 2, "sink": 1})] == [[], ["map"]]


def test_vertices_when_the_graph_has_a_cycle_then_says_so() -> None:
    app = measured()
    with pytest.raises(MillraceError, match="no cycle"):
        vertices(replace(app, edges=(*app.edges, Edge("sink", "map", 1.0))), {"map": 2, "sink": 1})

"""Which app reads what another writes, and the signals of several apps."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.control.app_graph import edges, find_links
from millrace.control.collect import collect
from millrace.control.messages import graph_problems
from millrace.lake.control_tables import ControlTables
from millrace.lake.row_codec import batch_row
from millrace.lake.store import Lake
from millrace.model.arrival import ArrivalBasis
from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.errors import NotReady
from millrace.model.protocols import Cursor
from millrace.model.signals import AppSignals, Edge, Signals
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import BatchMetrics
from millrace.optimizers.conformance.builders import app_signals
from tests.examples import examples
from tests.include.control.synthetic import START, App
from tests.include.control.test_app_queries import Query, shared


def app(name: str, sources: dict[str, int], sink: str = "") -> AppSignals:
    return app_signals(2, 100.0, None, app=name, sources=sources, sinks=(sink,) if sink else ())


def batch(name: str, second: float, rows: int, sink: str = "", source_end: int | None = None) -> BatchMetrics:
    time = START + timedelta(seconds=second)
    return BatchMetrics(
        pipeline="p", app=name, query="q", time=time, generation=1, epoch=0, batch_id=int(second), slots=2,
        rows_in=rows, durations_ms={"triggerExecution": 9000}, sink=sink, source_end=source_end,
    )  # fmt: skip


CLEAN = app("clean", {"kafka:raw": 1000}, "path:/silver")
COUNT = app("count", {"path:/silver": 300, "path:/codes": 100}, "path:/gold")
WRITTEN = [batch("clean", 10 * n, 400, "path:/silver") for n in range(10)]
"""400 rows every 10 s, of which 300 are written."""
READ = [batch("count", 10 * n + 3, 0, source_end=400 * n) for n in range(-1, 11)]
"""What is written shows 3 s later; a quarter of all rows comes from elsewhere."""


def found(*apps: AppSignals, rows: Any = None, **reads: Any) -> dict[tuple[str, str], Edge]:
    by_app = {each.app: [] for each in apps} | {"clean": WRITTEN, "count": READ} | (rows or {})
    return {(edge.producer, edge.consumer): edge for edge in edges(find_links(apps, by_app, reads), by_app)}


def test_edge_is_measured_from_the_end_of_one_batch_to_the_end_of_another() -> None:
    (edge,) = found(CLEAN, COUNT).values()
    assert (edge.producer, edge.consumer, edge.share) == ("clean", "count", 0.75)
    assert edge.taken_rows_per_s == pytest.approx(40.0) and edge.rows_per_s == pytest.approx(30.0)
    assert edge.lump_rows == pytest.approx(300.0)


@given(cut=st.integers(5, 12), seen=st.integers(5, 12))
@examples(40)
def test_ratio_of_an_edge_does_not_depend_on_when_it_is_measured(cut: int, seen: int) -> None:
    rows = {"clean": WRITTEN[:cut], "count": READ[:seen]}
    edge = found(CLEAN, COUNT, rows=rows)["clean", "count"]
    assert edge.rows_per_s is None or edge.rows_per_s / (edge.taken_rows_per_s or 1) == pytest.approx(0.75)


def test_edge_of_few_batches_is_known_without_its_rate() -> None:
    edge = found(CLEAN, COUNT, rows={"clean": WRITTEN[:3]})["clean", "count"]
    assert (edge.rows_per_s, edge.taken_rows_per_s) == (None, None)


def test_edge_of_a_recreated_table_has_no_rate() -> None:
    again = [*READ[:9], *(replace(row, source_end=5) for row in READ[9:])]
    assert found(CLEAN, COUNT, rows={"count": again})["clean", "count"].rows_per_s is None


def test_hidden_sink_has_the_rows_that_no_other_explains() -> None:
    hidden, written = replace(CLEAN, sinks=()), {"clean": [replace(row, sink="") for row in WRITTEN]}
    assert found(hidden, COUNT, rows=written) == {}
    assert found(hidden, COUNT, rows=written, count=["clean"])["clean", "count"].rows_per_s == pytest.approx(40.0)
    both = found(CLEAN, app("look_up", {"x": 1}), COUNT, count=["clean", "look_up"])
    assert {edge.producer: edge.share for edge in both.values()} == {"clean": 0.75, "look_up": 0.25}


def test_app_that_has_not_reported_has_no_edge() -> None:
    assert found(COUNT, count=["clean"]) == {}


def test_two_apps_that_feed_one_are_two_edges() -> None:
    both = found(CLEAN, app("late", {"kafka:late": 10}, "path:/codes"), COUNT)
    assert {edge.producer: edge.share for edge in both.values()} == {"clean": 0.75, "late": 0.25}


def test_app_that_reads_its_own_sink_has_no_edge_to_itself() -> None:
    assert found(replace(CLEAN, sources={"path:/silver": 5})) == {}


SPEC = PipelineSpec.model_validate(
    {
        "name": "delays",
        "apps": {name: {"script": f"{name}.py", "slots": {"start": 4}} for name in ("clean", "count")},
        "period_s": 20,
        "budget": {"slots": 9},
    }
)


READS = {"reads": ("count",)}


def rows_of(name: str, source: str, sink: str, seconds: float = 200) -> list[BatchMetrics]:
    made = App(noise=0.02).run(seconds, 1000)
    return [replace(row, app=name, query=name, sources={source: row.rows_in}, sink=sink) for row in made]


def lake(folder: Path, *rows: BatchMetrics) -> ControlTables:
    tables = ControlTables(Lake(folder))
    tables.deployments.commit(SPEC.first_deployment(), None)
    tables.lake.append("telemetry/batches", [batch_row(row) for row in rows])
    return tables


def signals(tables: ControlTables, cursor: Cursor | None = None) -> Signals:
    return collect(SPEC, tables, cursor or Cursor(), START + timedelta(minutes=10))


def test_signals_have_every_app_with_its_bounds_edges_and_the_budget(tmp_path: Path) -> None:
    rows = [*rows_of("clean", "kafka:raw", "path:/silver"), *rows_of("count", "path:/silver", "path:/gold")]
    seen = signals(lake(tmp_path, *rows))
    assert [a.app for a in seen.apps] == ["clean", "count"]
    assert [a.arrival_rows_per_s for a in seen.apps] == [pytest.approx(1000, rel=0.02)] * 2
    (edge,) = seen.edges
    assert (edge.producer, edge.consumer, edge.share) == ("clean", "count", 1.0)
    assert edge.rows_per_s == pytest.approx(1000, rel=0.1)
    assert set(seen.app_bounds) == {"clean", "count"} and seen.budget == 9
    assert (seen.deployment_version, seen.settling) == (1, False)


def test_period_of_each_app_is_its_own(tmp_path: Path) -> None:
    slow = [replace(row, trigger_s=100.0) for row in rows_of("count", "path:/silver", "path:/gold", 150)]
    seen = signals(lake(tmp_path, *rows_of("clean", "kafka:raw", "path:/silver"), *slow))
    clean, count = seen.apps
    assert (count.since, count.until) == (slow[-1].time - timedelta(seconds=100), slow[-1].time)
    assert clean.since is not None and clean.until == seen.until
    assert (seen.until - clean.since).total_seconds() == pytest.approx(20.0)


def test_rows_that_the_consumer_has_not_seen_yet_wait_for_it(tmp_path: Path) -> None:
    written, read = rows_of("clean", "kafka:raw", "path:/silver"), rows_of("count", "path:/silver", "path:/gold")
    late = replace(written[-1], time=read[-1].time + timedelta(seconds=1), batch_id=len(written), rows_in=700)
    planned = [replace(row, arrival_basis=ArrivalBasis.PLANNED) for row in read]

    def waiting(folder: str, *rows: BatchMetrics) -> int:
        backlog = signals(lake(tmp_path / folder, *rows)).apps[1].backlog_rows
        assert backlog is not None
        return backlog

    counted = waiting("counted", *written, *read)
    assert waiting("late", *written, late, *read) - counted == pytest.approx(700, rel=0.1)
    # a position that was read when its batch was planned is older than what ended during the batch
    assert waiting("planned", *written, *planned) - counted == pytest.approx(written[-1].rows_in, rel=0.1)


def queries_of(name: str, ends: dict[str, tuple[str, str]]) -> list[BatchMetrics]:
    """Return rows of an app with a fast query of 1000 rows/s and a slow one of 200 rows/s, four times as much per row.

    Args:
        name: Name of the app.
        ends: Source and sink of each query.
    """
    fast, slow = Query("fast", 1.0, 0.0005, lambda t: 1000.0), Query("slow", 0.7, 0.002, lambda t: 200.0)
    rows = [(row, *ends[row.query]) for row in shared([fast, slow], 200)]
    return [replace(row, app=name, sources={source: row.rows_in}, sink=sink) for row, source, sink in rows]


FAST, SLOW = 0.0005 / 0.00075, 0.002 / 0.00075
"""How many rows of the app a row of each query counts as."""


@pytest.mark.parametrize(
    ("source", "passed"), [("path:/silver", 1000 * FAST + 200 * SLOW), ("kafka:codes", 1000 * FAST)]
)
def test_consumer_of_two_queries_is_sized_for_both(tmp_path: Path, source: str, passed: float) -> None:
    read = queries_of("count", {"fast": ("path:/silver", ""), "slow": (source, "")})
    seen = signals(lake(tmp_path, *rows_of("clean", "kafka:raw", "path:/silver"), *read))
    (edge,) = seen.edges
    assert edge.rows_per_s == pytest.approx(passed, rel=0.05) and edge.taken_rows_per_s == pytest.approx(1000, rel=0.05)
    assert edge.share == pytest.approx(passed / 1200, abs=0.02)
    assert seen.apps[1].arrival_rows_per_s == pytest.approx(1000 * FAST + 200 * SLOW, rel=0.05)


def test_rows_that_one_query_of_a_producer_passes_on_are_counted_per_row_of_all(tmp_path: Path) -> None:
    written = queries_of("clean", {"fast": ("kafka:raw", "path:/silver"), "slow": ("kafka:codes", "path:/codes")})
    seen = signals(lake(tmp_path, *written, *rows_of("count", "path:/silver", "path:/gold")))
    (edge,) = seen.edges
    assert seen.apps[0].arrival_rows_per_s == pytest.approx(1200, rel=0.05)
    assert edge.rows_per_s is not None and edge.taken_rows_per_s is not None
    assert edge.rows_per_s / edge.taken_rows_per_s == pytest.approx(1000 / 1200, rel=0.1)


def test_app_without_telemetry_is_left_out_and_the_others_are_measured(tmp_path: Path) -> None:
    tables = lake(tmp_path, *rows_of("count", "path:/silver", "path:/gold"))
    assert [a.app for a in signals(tables).apps] == ["count"]


def test_rows_are_evaluated_once_although_other_pipelines_report(tmp_path: Path) -> None:
    tables = lake(tmp_path, *rows_of("clean", "raw", "path:/silver"), *rows_of("count", "path:/silver", "path:/gold"))
    seen = signals(tables)
    cursor = Cursor(seen.telemetry_version, seen.until)
    other = replace(batch("x", 300, 5), pipeline="other")
    tables.lake.append("telemetry/batches", [batch_row(other)])
    with pytest.raises(NotReady, match="delays: nothing newer than"):
        signals(tables, cursor)
    late = replace(batch("count", 300, 5), pipeline="delays", query="count")
    tables.lake.append("telemetry/batches", [batch_row(late)])
    assert signals(tables, cursor).until == late.time


def test_app_that_a_roll_back_has_removed_is_not_sized(tmp_path: Path) -> None:
    tables = lake(tmp_path, *rows_of("clean", "raw", "path:/silver"), *rows_of("count", "path:/silver", "path:/gold"))
    first = SPEC.first_deployment()
    tables.deployments.commit(replace(first, apps={"clean": first.apps["clean"]}), 1)
    seen = signals(tables)
    assert ([a.app for a in seen.apps], seen.unmeasured) == (["clean"], ())
    tables.deployments.commit(replace(first, apps={"former": first.apps["clean"]}), 2)
    with pytest.raises(NotReady, match="version 3 has no app clean"):
        signals(tables)


def test_app_that_is_silent_for_long_is_not_sized_by_its_old_figures(tmp_path: Path) -> None:
    rows = [*rows_of("clean", "raw", "path:/silver", 60), *rows_of("count", "path:/silver", "path:/gold", 400)]
    seen = signals(lake(tmp_path, *rows))
    assert ([a.app for a in seen.apps], seen.unmeasured) == (["count"], ("clean",))
    assert graph_problems(seen) == "clean has not reported lately, so it keeps its slots."


def test_falling_rate_does_not_look_like_rows_that_are_not_passed_on() -> None:
    """The consumer looks every 14 s. The producer's batches end every 8 s, each with half of the rows of the last."""
    sizes = [6400 // 2**n for n in range(8)]
    written = [replace(batch("clean", 8 * n, rows, "path:/silver"), batch_id=n) for n, rows in enumerate(sizes)]
    read = [
        batch("count", second, 0, source_end=sum(rows for n, rows in enumerate(sizes) if 8 * n <= second))
        for second in range(-4, 70, 14)
    ]
    (edge,) = found(
        replace(CLEAN), app("count", {"path:/silver": 300}), rows={"clean": written, "count": read}
    ).values()
    assert edge.rows_per_s is not None and edge.taken_rows_per_s is not None
    assert edge.rows_per_s / edge.taken_rows_per_s == pytest.approx(1.0, abs=0.05)


def test_apps_that_write_to_one_table_are_named(tmp_path: Path) -> None:
    rows = [*rows_of("clean", "raw", "path:/gold"), *rows_of("count", "raw", "path:/gold")]
    told = graph_problems(signals(lake(tmp_path, *rows)))
    assert told == "clean and count write to the same /gold: check that this is meant."


def test_apps_that_feed_each_other_in_a_circle_are_named(tmp_path: Path) -> None:
    rows = [*rows_of("clean", "path:/gold", "path:/silver"), *rows_of("count", "path:/silver", "path:/gold")]
    seen = signals(lake(tmp_path, *rows))
    assert seen.edges == ()
    told = "clean, count feed each other in a circle: each app is sized only by what arrives at it."
    assert graph_problems(seen) == told
    assert not graph_problems(seen, streams_move=True)


def test_circle_has_no_edges_even_if_rows_also_come_from_elsewhere(tmp_path: Path) -> None:
    clean = [replace(row, sources={"kafka:raw": 1, "path:/gold": 1}) for row in rows_of("clean", "", "path:/silver")]
    assert signals(lake(tmp_path, *clean, *rows_of("count", "path:/silver", "path:/gold"))).edges == ()


def test_circle_that_only_the_spec_closes_is_named(tmp_path: Path) -> None:
    rows = [*rows_of("clean", "raw", "path:/silver"), *rows_of("count", "path:/silver", "")]
    closed = SPEC.model_copy(update={"apps": {**SPEC.apps, "clean": SPEC.apps["clean"].model_copy(update=READS)}})
    seen = collect(closed, lake(tmp_path, *rows), Cursor(), START + timedelta(minutes=10))
    assert (seen.edges, seen.circle) == ((), ("clean", "count"))
    assert graph_problems(seen).startswith("clean, count feed each other in a circle")


def test_pipeline_without_telemetry_is_not_ready(tmp_path: Path) -> None:
    with pytest.raises(NotReady):
        signals(lake(tmp_path))


def test_only_the_app_that_a_newer_version_changes_settles(tmp_path: Path) -> None:
    tables = lake(tmp_path, *rows_of("clean", "raw", "path:/silver"), *rows_of("count", "path:/silver", ""))
    start = START - timedelta(minutes=5)
    for name in SPEC.apps:
        started = Reconfiguration("delays", name, None, "T2", None, 1, 1, start, start, None, Outcome.READY)
        tables.reconfigurations.record(started)
    first = SPEC.first_deployment()
    larger = {**first.apps, "count": replace(first.apps["count"], slots=6)}
    tables.deployments.commit(replace(first, apps=larger), 1)
    seen = signals(tables)
    assert {a.app: a.settling for a in seen.apps} == {"clean": False, "count": True}
    assert (seen.deployment_version, seen.settled) == (2, seen.apps[:1])

"""What the streams of a fleet read, from the batches of its nodes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from millrace.control.fleet_rows import HEARTBEAT
from millrace.control.fleet_streams import LONGEST, first_nodes, fleet_counts
from millrace.control.launch import launch
from millrace.control.messages import graph_problems
from millrace.lake.control_tables import ControlTables
from millrace.lake.row_codec import batch_row
from millrace.lake.store import Lake
from millrace.model.admission import StreamCounts
from millrace.model.fleet_spec import FleetStreams
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import BatchMetrics
from millrace.optimizers.conformance.builders import app_signals, signals
from millrace.optimizers.registry import Role, create
from tests.include.control.synthetic import START


@pytest.fixture
def tables(tmp_path: Path) -> ControlTables:
    lake = Lake(tmp_path / "lake")
    lake.create()
    return ControlTables(lake)


def fleet(folder: Path, *streams: str, nodes: int = 2) -> PipelineSpec:
    for stream in streams:
        (folder / "in" / stream).mkdir(parents=True)
        (folder / "in" / stream / "part.json").touch()
    return PipelineSpec.model_validate(
        {
            "name": "ingest",
            "fleet": {
                "script": str(folder / "ingest.py"),
                "checkpoints": str(folder / "checkpoints"),
                "streams": {"folders": f"{folder}/in/*"},
                "nodes": nodes,
            },
            "admission": {"capacity": 100, "report_s": 10, "unfinished": 1},
        }
    )


def saw(
    tables: ControlTables,
    stream: str,
    at_s: float,
    end: int | None,
    batch: int,
    node: str = "node0",
    backlog: int | None = None,
) -> None:
    """A batch of 10 rows of a stream that saw so many since its driver started, None if they are not counted."""
    metrics = BatchMetrics(
        "ingest", node, stream, START + timedelta(seconds=at_s), 1, 0, batch, 2, 10,
        durations_ms={"triggerExecution": 500}, source_end=end, backlog_rows=backlog,
    )  # fmt: skip
    tables.lake.append("telemetry/batches", [batch_row(metrics)])


def rows(counts: StreamCounts) -> dict[tuple[str, int], int | None]:
    found = zip(counts.index, counts.period, counts.rows, strict=True)
    return {(counts.stream[i], period): n for i, period, n in found}


def test_first_launch_spreads_the_streams_over_the_nodes(tmp_path: Path, tables: ControlTables) -> None:
    spec = fleet(tmp_path, "a", "b", "c d", nodes=2)
    assert first_nodes(spec) == {"a": 0, "b": 1, "c d": 0}
    (tmp_path / "ingest.py").touch()
    assert launch(spec, tables).ingest == {"a": 0, "b": 1, "c d": 0}


def test_rows_count_when_they_arrive_whichever_node_reads_them(tmp_path: Path, tables: ControlTables) -> None:
    spec = fleet(tmp_path, "a", "b")
    saw(tables, "a", 2, 900, 0)  # what had piled up before its driver started is no arrival
    saw(tables, "a", 8, 960, 1, backlog=20)
    saw(tables, "a", 8, 960, 1, backlog=20)  # reported twice
    saw(tables, "a", 12, 400, 2, node="node1", backlog=50)  # moved: it read 10, and 30 more wait
    saw(tables, "a", 18, 460, 3, node="node1", backlog=40)
    saw(tables, "b", 3, 0, 0, node="node1")
    saw(tables, "b", 13, 20, 1, node="node1")
    saw(tables, "b", 23, 60, 2, node="node1")  # the newest period is not over
    counts = fleet_counts(spec, tables, None, START + timedelta(seconds=26))
    assert counts is not None and (counts.since, counts.until) == (START, START + timedelta(seconds=20))
    assert rows(counts) == {("a", 0): 100, ("a", 1): 100, ("b", 0): 20, ("b", 1): 34}


def test_rates_are_steady_however_few_batches_report_them(tmp_path: Path, tables: ControlTables) -> None:
    """A batch every 7 s: one or two end in each period."""
    spec = fleet(tmp_path, "a")
    for number in range(10):
        saw(tables, "a", 2 + 7 * number, 70 * number, number)
    counts = fleet_counts(spec, tables, None, START + timedelta(seconds=66))
    assert counts is not None and rows(counts) == {("a", period): 100 for period in range(6)}


def test_rows_of_a_long_batch_arrived_evenly_and_the_next_batch_will_tell(
    tmp_path: Path, tables: ControlTables
) -> None:
    spec = fleet(tmp_path, "a", "b")
    for at_s, end in ((2, 100), (47, 500), (52, 510)):
        saw(tables, "a", at_s, end, at_s)
    for number in range(10):
        saw(tables, "b", 2 + 10 * number, 10 * number, number)
    counts = fleet_counts(spec, tables, None, START + timedelta(seconds=93))
    assert counts is not None
    found = rows(counts)
    assert [found.get(("a", period)) for period in range(9)] == [89, 89, 89, 89, 68, None, None, None, None]
    assert [found["b", period] for period in range(1, 9)] == [10] * 8


def test_stream_that_comes_back_to_a_driver_has_not_brought_what_the_other_one_read(
    tmp_path: Path, tables: ControlTables
) -> None:
    spec = fleet(tmp_path, "a")
    saw(tables, "a", 2, 100, 0)
    saw(tables, "a", 8, 110, 1)
    saw(tables, "a", 12, 0, 2, node="node1")
    saw(tables, "a", 18, 500, 3, node="node1")
    saw(tables, "a", 22, 700, 4)  # node0 counts on where it was
    saw(tables, "a", 28, 720, 5)
    saw(tables, "a", 32, 730, 6)
    counts = fleet_counts(spec, tables, None, START + timedelta(seconds=33))
    assert counts is not None and rows(counts) == {("a", 0): 17, ("a", 1): 833, ("a", 2): 31}


def test_source_that_does_not_count_brings_what_is_read(tmp_path: Path, tables: ControlTables) -> None:
    spec = fleet(tmp_path, "a")
    for number in range(4):
        saw(tables, "a", 2 + 10 * number, None, number)
        saw(tables, "a", 2 + 10 * number, None, number)  # reported twice
    counts = fleet_counts(spec, tables, None, START + timedelta(seconds=33))
    assert counts is not None and rows(counts) == {("a", 0): 10, ("a", 1): 10, ("a", 2): 10}


def test_other_apps_of_the_pipeline_read_no_stream(tmp_path: Path, tables: ControlTables) -> None:
    spec = fleet(tmp_path, "a")
    for number in range(3):
        saw(tables, "a", 2 + 10 * number, 30 * number, number)
        saw(tables, "totals", 2 + 10 * number, 30 * number, number, node="totals")
    counts = fleet_counts(spec, tables, None, START + timedelta(seconds=23))
    assert counts is not None and counts.stream == ("a",) and counts.fleet and counts.waiting == {}


def test_stream_without_rows_counts_as_one_row_so_that_it_keeps_its_node(tmp_path: Path, tables: ControlTables) -> None:
    spec = fleet(tmp_path, "a", "new", "silent")
    for number in range(3):
        saw(tables, "a", 2 + 10 * number, 30 * number, number)
        saw(tables, "silent", 2 + 10 * number, 7, number)
        saw(tables, HEARTBEAT, 2 + 10 * number, 0, number)
    counts = fleet_counts(spec, tables, None, START + timedelta(seconds=23))
    assert counts is not None
    assert rows(counts) == {("a", 0): 30, ("a", 1): 30, ("silent", 0): 0, ("silent", 1): 1, ("new", 1): 1}


def test_nothing_is_counted_before_the_first_period_is_over(tmp_path: Path, tables: ControlTables) -> None:
    spec = fleet(tmp_path, "a")
    assert fleet_counts(spec, tables, None, START) is None
    saw(tables, "a", 2, 30, 0)
    assert fleet_counts(spec, tables, None, START + timedelta(seconds=5)) is None


def test_sink_that_a_stream_takes_along_is_no_problem() -> None:
    nodes = tuple(app_signals(2, 10.0, None, app=name, sinks=("path:/bronze/a",)) for name in ("node0", "node1"))
    seen = replace(signals(nodes[0]), apps=nodes)
    assert graph_problems(seen) and graph_problems(seen, streams_move=True) == ""


def test_first_plan_waits_until_most_streams_have_reported_through_a_period(
    tmp_path: Path, tables: ControlTables
) -> None:
    spec, now = fleet(tmp_path, "a", "b", "c"), START + timedelta(seconds=23)
    saw(tables, "a", 2, 900, 0)
    saw(tables, "a", 22, 950, 1)
    for stream in "bc":
        saw(tables, stream, 18, 900, 0)
        saw(tables, stream, 22, 950, 1)
    assert fleet_counts(spec, tables, None, now) is None
    saw(tables, "b", 3, 800, 0)
    assert fleet_counts(spec, tables, None, now) is not None


def test_first_plan_does_not_wait_forever_for_streams_that_fail(tmp_path: Path, tables: ControlTables) -> None:
    spec = fleet(tmp_path, "a", "b", "c", "d")
    for number in range(15):
        for stream in "ab":
            saw(tables, stream, 2 + 10 * number, 30 * number, number)
    assert fleet_counts(spec, tables, None, START + timedelta(seconds=65)) is None
    late = START + timedelta(seconds=spec.ready_deadline_s + 25)
    counts = fleet_counts(spec, tables, None, late)
    assert counts is not None and counts.stream == ("a", "b", "c", "d")
    last = counts.periods - 1
    assert [rows(counts)[stream, last] for stream in counts.stream] == [30, 30, 1, 1]


def test_hours_in_which_a_fleet_was_stopped_are_left_out(tmp_path: Path, tables: ControlTables) -> None:
    spec, hours = fleet(tmp_path, "a"), timedelta(hours=5)
    assert spec.admission is not None
    spec = spec.model_copy(update={"admission": spec.admission.model_copy(update={"report_s": 60})})
    tables.memories.record("ingest", "drfm", "decision", START, {"until": START.isoformat()})
    for number in range(5):
        saw(tables, "a", hours.total_seconds() + 2 + 60 * number, 100 * number, number)
    now = START + hours + timedelta(minutes=5)
    counts = fleet_counts(spec, tables, None, now)
    assert counts is not None and now - counts.since <= LONGEST
    assert [rows(counts)["a", counts.periods - n] for n in (1, 2, 3)] == [100] * 3


def test_stream_that_the_spec_no_longer_describes_is_removed_though_it_has_rows(
    tmp_path: Path, tables: ControlTables
) -> None:
    spec = fleet(tmp_path, "a", "b")
    (tmp_path / "ingest.py").touch()
    current = launch(spec, tables)
    assert spec.fleet is not None
    for number in range(3):
        for stream in "ab":
            saw(tables, stream, 2 + 10 * number, 30 * number, number)
    shutil.rmtree(tmp_path / "in" / "b")
    narrow = [FleetStreams(folders=f"{tmp_path}/in/a*"), FleetStreams(list=("a",))]
    for streams, removed in ((spec.fleet.streams, ()), *((streams, ("b",)) for streams in narrow)):
        edited = spec.model_copy(update={"fleet": spec.fleet.model_copy(update={"streams": streams})})
        counts = fleet_counts(edited, tables, None, START + timedelta(seconds=23))
        assert counts is not None and counts.removed == removed
        optimizer = create("drfm", dict(edited.admission_options or {}), Role.ADMISSION)
        proposal, memory = optimizer.propose(replace(signals(app_signals(2, 10.0, None)), streams=counts), current, {})
        assert proposal.admission is not None and proposal.admission.left == removed
        after = current.with_changes(proposal.changes).ingest
        assert set(after) == set(memory["streams"]) == {"a", "b"} - {*removed}


def test_stream_that_appears_in_a_fleet_without_streams_is_admitted(tmp_path: Path, tables: ControlTables) -> None:
    """Only heartbeats report."""
    spec = fleet(tmp_path)
    (tmp_path / "ingest.py").touch()
    current = launch(spec, tables)
    assert current.ingest == {}
    (tmp_path / "in" / "new").mkdir(parents=True)
    (tmp_path / "in" / "new" / "part.json").touch()
    for number in range(20):
        saw(tables, HEARTBEAT, 2 + 10 * number, 0, number)
    counts = fleet_counts(spec, tables, None, START + timedelta(seconds=195))
    assert counts is not None and rows(counts) == {("new", counts.periods - 1): 1}
    optimizer = create("drfm", dict(spec.admission_options or {}), Role.ADMISSION)
    seen = replace(signals(app_signals(2, 10.0, None)), streams=counts)
    plan = optimizer.propose(seen, current, {})[0].admission
    assert plan is not None and (plan.stream, plan.admitted) == (("new",), 1)

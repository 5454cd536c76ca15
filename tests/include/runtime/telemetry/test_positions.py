"""Positions in sources, from progress events as Spark wrote them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from millrace.lake.source_commits import DeltaRead
from millrace.model.arrival import ArrivalBasis
from millrace.runtime.telemetry.positions import Positions
from millrace.runtime.telemetry.sources.api import UNKNOWN, Position, Source
from millrace.runtime.telemetry.sources.delta import DeltaPosition
from millrace.runtime.telemetry.sources.kafka import KafkaPosition
from millrace.runtime.telemetry.sources.unread_files import UnreadFiles

# a progress event of Spark's Kafka source, two topics, one partition that grew while the batch was planned
KAFKA = json.loads(
    """{"description": "KafkaV2[Subscribe[clicks, views]]",
        "startOffset": {"clicks": {"0": 100, "1": 50}, "views": {"0": 7}},
        "endOffset": {"clicks": {"0": 160, "1": 80}, "views": {"0": 7}},
        "latestOffset": {"clicks": {"0": 200, "1": 80}, "views": {"0": 9}},
        "numInputRows": 90, "metrics": {"avgOffsetsBehindLatest": "14.0"}}"""
)


Offset = tuple[int, int]
PLAIN = DeltaRead()


def delta(path: Path, start: Offset | None, end: Offset, snapshot: bool = False, rows: int = 0) -> dict:
    reservoir = DeltaTable(path).metadata().id

    def offset(at: Offset | None) -> dict | None:
        if at is None:
            return None
        plain = {"sourceVersion": 1, "reservoirId": reservoir, "reservoirVersion": at[0], "index": at[1]}
        return plain | {"isStartingVersion": snapshot}

    ends = {"startOffset": offset(start), "endOffset": offset(end)}
    return {"description": f"DeltaSource[file:{path}]", "numInputRows": rows, **ends}


def counted(backlog: int, end: int, read: int | None) -> Position:
    return Position(backlog, end, read, ArrivalBasis.COUNTED)


def planned(backlog: int, end: int, read: int | None, **lag: int) -> Position:
    return Position(backlog, end, read, ArrivalBasis.PLANNED, {"/".join(k.rsplit("_", 1)): n for k, n in lag.items()})


def counting(path: Path, read: DeltaRead = PLAIN) -> Positions:
    description = f"DeltaSource[file:{path}]"
    return Positions({description: DeltaPosition(description, read)})


def reading(path: Path, times: int, starts: Sequence[str] = ("", "")) -> Source:
    """Return a table that a query reads several times, as Spark has it."""

    def stream(start: str) -> Any:
        option = SimpleNamespace(isEmpty=lambda: True, toString=lambda: start)
        options = SimpleNamespace(
            excludeRegex=lambda: option,
            startingVersion=lambda: option,
            startingTimestamp=lambda: option,
            containsStartingVersionOrTimestamp=lambda: bool(start),
            skipChangeCommits=lambda: False,
            readChangeFeed=lambda: False,
        )
        return SimpleNamespace(
            getClass=lambda: SimpleNamespace(getSimpleName=lambda: "DeltaSource"), options=lambda: options
        )

    return Source(f"DeltaSource[file:{path}]", tuple(map(stream, starts[:times])))


def following(batch: dict, latest: object = None, limits: dict | None = None, **first: dict[str, int]) -> Positions:
    """Follow a Kafka source that reports its newest offsets, and whose broker holds offsets from the first ones."""
    name = batch["description"]
    earliest = {(topic, part): n for topic, parts in first.items() for part, n in parts.items()}
    return Positions({name: KafkaPosition(name, lambda: latest, lambda: earliest)}, limits or {})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for rows in (10, 20, 30):
        write_deltalake(tmp_path / "t", pa.table({"id": range(rows)}), mode="append")
    return tmp_path / "t"


def test_position_of_kafka_counts_offsets() -> None:
    assert Positions().of([KAFKA]) == planned(backlog=42, end=289, read=90, clicks_0=40, clicks_1=0, views_0=2)


def test_position_without_kafkas_latest_offset_is_unknown() -> None:
    assert Positions().of([{**KAFKA, "latestOffset": None}]) == UNKNOWN


def test_topics_with_a_partition_without_metadata_are_unknown_and_not_empty() -> None:
    """Zeros in place of values lost with a connection led to a scale-down (FLINK-39925)."""
    for latest in ({}, {"clicks": {"0": 200}, "views": {"0": 9}}):
        assert Positions().of([{**KAFKA, "latestOffset": latest}]) == UNKNOWN
        assert following(KAFKA, latest).at_rest([KAFKA]) == UNKNOWN


# as Spark wrote it when a pattern matched a topic of 30,000 offsets of which retention had left 10
RETAINED = {
    "description": "KafkaV2[SubscribePattern[(pq|old_).*]]",
    "startOffset": {"pq1": {"0": 150}},
    "endOffset": {"old_x": {"0": 30000}, "pq1": {"0": 170}},
    "latestOffset": {"old_x": {"0": 30000}, "pq1": {"0": 170}},
    "numInputRows": 30,
}


def test_rows_that_kafka_deleted_before_they_were_read_did_not_arrive(caplog: pytest.LogCaptureFixture) -> None:
    """KEDA 7936: messages that retention deleted count as lag."""
    limits = {RETAINED["description"]: math.inf}
    positions = following(RETAINED, limits=limits, old_x={"0": 29990}, pq1={"0": 0})
    assert positions.of([RETAINED]) == UNKNOWN
    assert "deleted rows before they were read" in caplog.text
    end = {"old_x": {"0": 30000}, "pq1": {"0": 220}}
    later = {**RETAINED, "startOffset": RETAINED["endOffset"], "endOffset": end, "latestOffset": end}
    assert positions.of([{**later, "numInputRows": 50}]) == planned(0, 30220, 50, old_x_0=0, pq1_0=0)


def test_offsets_of_transactions_count_as_rows_if_nothing_was_deleted() -> None:
    positions = following(KAFKA, clicks={"0": 100}, views={"0": 2})
    assert positions.of([{**KAFKA, "numInputRows": 45}]) == Positions().of([KAFKA])


def test_position_of_delta_counts_the_log(table: Path) -> None:
    assert counting(table).of([delta(table, (0, 0), (1, 0))]) == counted(backlog=30, end=60, read=20)


def test_position_of_delta_with_unknown_options_is_unknown(table: Path) -> None:
    assert Positions().of([delta(table, (0, 0), (1, 0))]) == UNKNOWN


def test_first_batch_reads_a_snapshot_or_from_a_version(table: Path) -> None:
    first = delta(table, None, (3, -1), rows=120)  # of 60 rows, computed twice
    read = counting(table).of([first])
    assert (read.backlog, read.read) == (0, 60)
    later = counting(table, DeltaRead(first_version=lambda: 1)).of([first])
    assert (later.backlog, later.read) == (0, 50)


def test_update_that_the_query_skips_changes_neither_arrival_nor_backlog(table: Path) -> None:
    skipping, reading = counting(table, DeltaRead(skip_changes=True)), counting(table)
    batch = delta(table, (2, -1), (3, -1))
    before = [positions.of([batch]) for positions in (skipping, reading)]
    DeltaTable(table).update({"id": "id + 100"}, predicate="id < 1")
    after = [positions.at_rest([batch]) for positions in (skipping, reading)]
    assert [a.end - b.end for a, b in zip(after, before, strict=True)] == [0, 60]
    assert [a.backlog for a in after] == [0, 60]


def test_log_cleaned_during_a_batch_makes_its_arrival_unknown(table: Path, caplog: pytest.LogCaptureFixture) -> None:
    positions = counting(table)
    positions.of([delta(table, (1, -1), (3, -1))])
    for rows in (40, 50, 60, 70):
        write_deltalake(table, pa.table({"id": range(rows)}), mode="append")
    DeltaTable(table).create_checkpoint()
    for version in range(6):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    assert positions.of([delta(table, (3, -1), (6, -1))]) == UNKNOWN
    assert "versions 3 to 5 were deleted from the log" in caplog.text
    known = positions.of([delta(table, (6, -1), (7, -1))])
    assert (known.backlog, known.read) == (0, 70)


def test_table_that_a_query_reads_twice_is_counted_while_it_falls_behind(table: Path) -> None:
    twice = Positions.following([reading(table, 2)])
    batches = [delta(table, (0, 0), (1, 0)), delta(table, (1, 0), (2, 0)), delta(table, (2, 0), (3, -1))]
    expected = [counted(60, 120, 40), counted(0, 120, 60), counted(0, 120, 0)]
    assert [twice.of([batch, batch]) for batch in batches] == expected
    assert twice.at_rest([batches[2]] * 2) == counted(0, 120, 0)


def test_table_that_a_query_reads_from_different_versions_is_unknown(table: Path) -> None:
    batch = delta(table, (0, 0), (1, 0))
    assert Positions.following([reading(table, 2, starts=("0", "1"))]).of([batch, batch]) == UNKNOWN


def test_folder_that_a_query_reads_twice_is_not_followed() -> None:
    limit = SimpleNamespace(getClass=lambda: SimpleNamespace(getSimpleName=lambda: "ReadMaxFiles"))
    stream = SimpleNamespace(
        getClass=lambda: SimpleNamespace(getSimpleName=lambda: "FileStreamSource"), getDefaultReadLimit=lambda: limit
    )
    assert UnreadFiles.of(Source("FileStreamSource[file:/in]", (stream, stream), gateway=SimpleNamespace())) is None


def test_position_of_several_sources_is_their_sum(table: Path) -> None:
    both = counting(table).of([delta(table, (0, 0), (1, 0)), KAFKA])
    assert both == planned(backlog=72, end=349, read=110, clicks_0=40, clicks_1=0, views_0=2)


def test_position_is_unknown_if_one_source_does_not_report(table: Path) -> None:
    rate = {"description": "RateStreamV2[rowsPerSecond=1]", "startOffset": 1, "endOffset": 2}
    assert Positions().of([delta(table, (0, 0), (1, 0)), rate]) == UNKNOWN
    assert Positions().of([]) == UNKNOWN


RATE = {"description": "RateStreamV2[rowsPerSecond=1]", "startOffset": 1, "endOffset": 2, "numInputRows": 100}
LIMITS = {"RateStreamV2[rowsPerSecond=1]": math.inf, KAFKA["description"]: None}


def test_source_read_to_its_end_shows_that_a_batch_took_everything() -> None:
    assert Positions(limits=LIMITS).of([RATE]) == Position(basis=ArrivalBasis.TAKEN)
    assert Positions(limits=LIMITS).at_rest([RATE]) == Position(backlog=0, basis=ArrivalBasis.TAKEN)


@pytest.mark.parametrize(
    ("limit", "basis"), [(101.0, ArrivalBasis.TAKEN), (100.0, ArrivalBasis.READ), (None, ArrivalBasis.READ)]
)
def test_limited_source_took_everything_only_below_its_limit(limit: float | None, basis: ArrivalBasis) -> None:
    positions = Positions(limits={RATE["description"]: limit})
    assert positions.of([RATE]) == Position(basis=basis)
    assert positions.at_rest([RATE]) == Position(backlog=0, basis=ArrivalBasis.TAKEN)


def test_one_possibly_full_source_makes_the_batch_so() -> None:
    assert Positions(limits=LIMITS).of([RATE, KAFKA]) == Position(basis=ArrivalBasis.READ)


def test_source_without_a_known_limit_shows_nothing() -> None:
    assert Positions().of([RATE]) == Positions().at_rest([RATE]) == Positions(limits=LIMITS).of([]) == UNKNOWN


def test_rows_that_wait_for_a_full_batch_are_lag_of_an_idle_query() -> None:
    """With ``minOffsetsPerTrigger`` Spark is idle while rows wait."""
    resumed = {"description": KAFKA["description"], "endOffset": KAFKA["endOffset"]}  # as in the query's log
    idle = following(KAFKA, KAFKA["latestOffset"])
    assert idle.at_rest([resumed]) == planned(backlog=42, end=289, read=None, clicks_0=40, clicks_1=0, views_0=2)


def test_topics_that_do_not_report_their_end_are_not_at_rest() -> None:
    assert Positions(limits=LIMITS).at_rest([KAFKA]) == Positions(limits=LIMITS).at_rest([RATE, KAFKA]) == UNKNOWN


def test_position_of_a_missing_table_is_unknown_and_reported_once(
    table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = delta(table, (0, 0), (1, 0))
    source["description"] = f"DeltaSource[file:{table}-gone]"
    positions = counting(Path(f"{table}-gone"))
    assert positions.of([source]) == positions.of([source]) == UNKNOWN
    assert len(caplog.messages) == 1

"""Rows of Delta sources in buckets are counted as in folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from millrace.lake.location import Location
from millrace.lake.source_commits import DeltaRead
from millrace.model.arrival import ArrivalBasis
from millrace.model.errors import MillraceError
from millrace.runtime.telemetry.sources.api import UNKNOWN, Position
from millrace.runtime.telemetry.sources.delta import RETRY_S, DeltaPosition
from tests.object_stores.place import Place

SPARKS = {"s3": "s3a"}
"""Schemes by which Spark names the same bucket."""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def rows(count: int) -> pa.Table:
    return pa.table({"id": range(count)})


def offset(table: Location, version: int, index: int = -1, *, snapshot: bool = False) -> dict[str, Any]:
    known = table.table().metadata().id
    return {"reservoirId": known, "reservoirVersion": version, "index": index, "isStartingVersion": snapshot}


def commit(table: Location, count: int) -> None:
    write_deltalake(table.uri, rows(count), mode="append", storage_options=table.storage_options)


def positions(table: Location, uri: str) -> list[Position]:
    """Follow a source from its first batch on, while rows are committed and some are deleted."""
    seen = DeltaPosition(f"DeltaSource[{uri}]", DeltaRead())
    for count in (5, 7, 11):
        commit(table, count)
    found = [seen.after({"endOffset": offset(table, 2, 0, snapshot=True)})]
    found += [seen.after({"startOffset": offset(table, 2, 0, snapshot=True), "endOffset": offset(table, 3)})]
    commit(table, 13)
    found.append(seen.at_rest(offset(table, 3)))
    DeltaTable(table.uri, storage_options=table.storage_options).delete("id > 8")
    found.append(seen.at_rest(offset(table, 4)))
    return found


def test_rows_that_wait_are_counted_as_in_a_folder(place: Place, tmp_path: Path) -> None:
    scheme, _, rest = place.lake.partition("://")
    here, there = Location.of(tmp_path / "t"), Location.of(f"{place.lake}/t")
    expected = positions(here, f"file:{here.uri}")
    assert positions(there, f"{SPARKS.get(scheme, scheme)}://{rest}/t") == expected
    assert [p.basis for p in expected] == [ArrivalBasis.COUNTED] * 4 and expected[2].backlog == 13


def test_bucket_is_not_asked_every_second(place: Place) -> None:
    table, clock = Location.of(f"{place.lake}/t"), Clock()
    commit(table, 5)
    seen = DeltaPosition(f"DeltaSource[{table.uri}]", DeltaRead(), interval_s=10.0, clock=clock)
    end = offset(table, 1)
    assert seen.at_rest(end).backlog == 0
    commit(table, 7)
    clock.now = 9.0
    assert seen.at_rest(end).backlog == 0
    assert seen.after({"startOffset": end, "endOffset": end}).backlog == 7, "the end of a batch is always exact"
    commit(table, 1)
    clock.now = 19.5
    assert seen.at_rest(end).backlog == 8


def test_bucket_that_cannot_be_read_is_left_alone_for_a_while(place: Place) -> None:
    clock = Clock()
    seen = DeltaPosition(f"DeltaSource[{place.missing}/t]", DeltaRead(), clock=clock)
    end = {"reservoirId": "x", "reservoirVersion": 1, "index": -1, "isStartingVersion": False}
    for clock.now in (0.0, RETRY_S):
        with pytest.raises((OSError, MillraceError)):
            seen.at_rest(end)
        assert seen.after({"endOffset": end}) == UNKNOWN


def test_source_on_another_file_system_is_unknown() -> None:
    seen = DeltaPosition("DeltaSource[hdfs://host/t]", DeltaRead())
    assert seen.at_rest({"reservoirId": "x", "reservoirVersion": 1, "index": -1, "isStartingVersion": False}) == UNKNOWN


def test_source_without_its_account_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(MillraceError, match="AZURE_STORAGE_ACCOUNT_NAME"):
        DeltaPosition("DeltaSource[az://container/t]", DeltaRead())

"""Appends from several generations of a writer."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from millrace.lake.fenced_table import Fenced, FencedTable
from millrace.lake.store import Lake
from millrace.model.errors import Conflict, MillraceError

TABLE = "telemetry/batches"


def row(batch_id: int) -> dict:
    return {"pipeline": "p", "time": datetime.now(UTC), "app": "a", "batch_id": batch_id}


def writer(root: Path, generation: int) -> FencedTable:
    return FencedTable(Lake(root), TABLE, "p/a/generation", generation)


def batches(root: Path) -> list[int]:
    return [r["batch_id"] for r in Lake(root).rows("select batch_id from batches order by batch_id", TABLE)]


def test_append_when_generation_stays_then_writes_every_commit(tmp_path: Path) -> None:
    first = writer(tmp_path, 1)
    for n in range(3):
        assert first.committed(["p/a/q"]) == ({} if n == 0 else {"p/a/q": n - 1})
        first.append([row(n)], {"p/a/q": n})
    assert batches(tmp_path) == [0, 1, 2]


def test_stale_generation_is_fenced_at_committed(tmp_path: Path) -> None:
    stale, fresh = writer(tmp_path, 1), writer(tmp_path, 2)
    stale.committed([])
    stale.append([row(0)], {"p/a/q": 0})
    fresh.committed([])
    fresh.append([row(1)], {"p/a/q": 1})
    with pytest.raises(Fenced):
        stale.committed(["p/a/q"])


def test_stale_generation_is_refused_at_append(tmp_path: Path) -> None:
    stale, fresh = writer(tmp_path, 1), writer(tmp_path, 2)
    stale.committed([])  # checked, and is slow now
    fresh.committed([])
    fresh.append([row(1)], {"p/a/q": 1})
    with pytest.raises(Conflict):
        stale.append([row(0)], {"p/a/other": 0})
    assert batches(tmp_path) == [1]


def test_committed_when_lake_cannot_be_made_then_error_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file where the folder should be")
    with pytest.raises(MillraceError, match="writable folder"):
        writer(tmp_path / "lake", 1).committed([])

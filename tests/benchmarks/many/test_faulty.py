"""Pipelines that become bad, each alone."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.many.faulty import BROKEN, FAILS, FAULTY, HANGS, spoil
from millrace.lake.decisions import DecisionStore
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision
from millrace.model.protocols import Cursor


def test_each_bad_pipeline_is_bad_in_its_own_way_and_others_are_not(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    for name in (*FAULTY, "good"):
        now = datetime.now(UTC)
        lake.append("telemetry/batches", [{"pipeline": name, "app": name, "time": now, "slots": 2, "rows_in": 9}])
        decision = Decision(f"{name}-1", name, now, Action.HOLD, "at_minimum", "", cursor_version=7)
        DecisionStore(lake).record(decision)
    spoil(tmp_path / "lake", tmp_path)
    with pytest.raises(ValueError, match="property name"):
        DecisionStore(lake).cursor(FAILS)
    for name in (HANGS, "good"):
        cursor = DecisionStore(lake).cursor(name)
        assert isinstance(cursor, Cursor) and cursor.telemetry_version == 7
    pipes = [p for p in (tmp_path / "lake" / "telemetry").rglob("*.parquet") if stat.S_ISFIFO(p.stat().st_mode)]
    assert [f"pipeline={HANGS}" in str(pipe) for pipe in pipes] == [True]
    assert "no_such_key" in (tmp_path / f"{BROKEN}.yaml").read_text()

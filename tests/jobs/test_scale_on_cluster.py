"""A plain script on JSON files, attached with one YAML, asks for more executors than the embedded cluster has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from millrace.model.decision import Outcome
from tests.jobs.adapting import Adapting, embedded_cluster
from tests.jobs.totals import EMBEDDED, follow_load

NO_ROOM = r"6 of 8 slots: the cluster has no room for more executors"

pytestmark = pytest.mark.platform


def test_script_on_a_cluster_without_room_still_shrinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_short(pipeline: Adapting) -> bool:
        return any(change.error and "the cluster has no room" in change.error for change in pipeline.changes)

    with embedded_cluster(tmp_path, monkeypatch):
        pipeline = follow_load(tmp_path, {**EMBEDDED, "conf": {"spark.cores.max": "6"}}, 250.0, is_short)

    failed = [c.error or "" for c in pipeline.changes if c.outcome is Outcome.FAILED]
    assert failed and all(re.fullmatch(NO_ROOM, error) for error in failed), failed
    assert {(c.tier, c.generation) for c in pipeline.changes} == {("T1", 1)}

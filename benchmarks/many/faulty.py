"""Pipelines that become bad: one whose evaluations fail, one whose evaluations hang, one with a broken spec."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.many.evaluations import BATCHES, DECISIONS
from millrace.lake.decisions import ID_TIME
from millrace.lake.row_codec import decision_row
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision

FAILS, HANGS, BROKEN = "zz_fails", "zz_hangs", "zz_broken"
FAULTY = (FAILS, HANGS, BROKEN)


def spoil(lake: Path, specs: Path) -> None:
    """Make the three pipelines bad, while their drivers continue.

    Args:
        lake: Folder of the lake, with telemetry of the pipelines.
        specs: Folder of the specs.
    """
    _fail(Lake(lake))
    _hang(lake)
    (specs / f"{BROKEN}.yaml").write_text(f"name: {BROKEN}\nno_such_key: 1\n", encoding="utf-8")


def _fail(lake: Lake) -> None:
    """Record a Decision that cannot be parsed: evaluations continue from the last one, so they raise an error."""
    now = datetime.now(UTC)
    decision = Decision(f"{now:{ID_TIME}}-spoilt", FAILS, now, Action.HOLD, "spoilt", "Spoilt.", cursor_version=0)
    lake.append(DECISIONS, [{**decision_row(decision), "signals": "{"}])


def _hang(lake: Path) -> None:
    """Replace the newest file of the telemetry by a pipe without a writer: a reader waits when it opens it."""
    folder = lake / BATCHES / f"pipeline={HANGS}"
    newest = max(folder.rglob("*.parquet"), key=lambda path: path.stat().st_mtime)
    newest.unlink()
    os.mkfifo(newest)

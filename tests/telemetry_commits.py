"""Commits to a table of telemetry, as drivers make them."""

from __future__ import annotations

from datetime import UTC, datetime

from millrace.lake.store import Lake

TABLE = "telemetry/apps"


def commit(lake: Lake, pipeline: str, number: int) -> int:
    row = {"pipeline": pipeline, "time": datetime.now(UTC), "app": pipeline, "generation": 1, "up_s": 1.0}
    version = lake.append(TABLE, [row], {f"{pipeline}/{pipeline}/main/0": number})
    assert version is not None
    return version

"""Since when the listener counts a batch as running, from what Spark says of its query."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from millrace.runtime.arrival_watch import ArrivalWatch
from millrace.runtime.telemetry import listener
from millrace.runtime.telemetry.batches import AppIdentity
from millrace.runtime.telemetry.listener import TelemetryListener


@pytest.mark.parametrize(
    ("message", "active", "ran_s"),
    [
        ("Processing new data", True, 20.0),
        ("No new data but cleaning up state", True, 20.0),
        ("Getting offsets from DeltaSource[file:/source]", True, 0.0),
        ("Waiting for data to arrive", True, 0.0),
        ("Processing new data", False, 0.0),
    ],
)
def test_trigger_that_looks_for_rows_is_no_long_batch(
    monkeypatch: pytest.MonkeyPatch, message: str, active: bool, ran_s: float
) -> None:
    now_s, watch, writer = 100.0, ArrivalWatch(), MagicMock(interval_s=60.0)
    monkeypatch.setattr(listener.time, "monotonic", lambda: now_s)
    status = SimpleNamespace(isTriggerActive=lambda: active, message=lambda: message)
    query: Any = MagicMock(status=lambda: status)
    monkeypatch.setattr(listener, "running_query", lambda spark, query_id: query)
    query.runId().toString.return_value = "run"
    telemetry = TelemetryListener(MagicMock(), AppIdentity("p", "a", 1, 1, 2), writer, MagicMock(), watch=watch)
    telemetry.onQueryStarted(MagicMock(id="id", runId="run"))
    telemetry.tick()
    now_s = 120.0
    telemetry.tick()
    assert watch.longest_batch_s(now_s) == ran_s

"""A wait for a trigger counts as work until the trigger is long overdue; tests with Spark are in tests/jobs."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.runtime import advance
from millrace.runtime.advance import AdvanceWatch

INTERVAL_S = 5.0


@dataclass
class Clock:
    """A monotonic clock, moved by the test."""

    now_s: float = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class Idle:
    """A host whose driver uses no processor."""

    own_s = 0.0

    def sample(self, newer_than_s: float) -> None:
        """Nothing changes."""


def _query(trigger: str, interval_s: float) -> Any:
    kind = SimpleNamespace(getSimpleName=lambda: trigger)
    interval_ms = int(interval_s * 1000)
    timed = SimpleNamespace(getClass=lambda: kind, intervalMs=lambda: interval_ms, batchDurationMs=lambda: interval_ms)
    # in real-time mode a batch always runs
    status = SimpleNamespace(isTriggerActive=lambda: trigger == "RealTimeTrigger")
    conf = SimpleNamespace(streamingNoDataProgressEventInterval=lambda: 10_000)
    session = SimpleNamespace(sessionState=lambda: SimpleNamespace(conf=lambda: conf))
    stream = SimpleNamespace(trigger=lambda: timed, sparkSession=lambda: session)
    return SimpleNamespace(
        _jsq=SimpleNamespace(isActive=lambda: True, status=lambda: status, streamingQuery=lambda: stream)
    )


def _session() -> Any:
    stages = SimpleNamespace(size=lambda: 0)
    context = SimpleNamespace(statusStore=lambda: SimpleNamespace(activeStages=lambda: stages))
    return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context)))


@pytest.mark.parametrize(
    ("trigger", "interval_s", "silence_s", "goes_on"),
    [
        ("ProcessingTimeTrigger", INTERVAL_S, 15.0, True),
        ("ProcessingTimeTrigger", INTERVAL_S, 79.0, True),
        ("ProcessingTimeTrigger", INTERVAL_S, 81.0, False),
        ("ProcessingTimeTrigger", 3600.0, 7200.0, True),
        ("ProcessingTimeTrigger", 0.0, 7200.0, True),
        ("AvailableNowTrigger", INTERVAL_S, 7200.0, True),
        ("RealTimeTrigger", 300.0, 650.0, True),
        ("RealTimeTrigger", 300.0, 680.0, False),
    ],
)
def test_advanced_until_the_next_trigger_is_long_overdue(
    monkeypatch: pytest.MonkeyPatch, trigger: str, interval_s: float, silence_s: float, goes_on: bool
) -> None:
    clock = Clock()
    monkeypatch.setattr(advance, "time", clock)
    journal: Any = SimpleNamespace(triggered_s=clock.now_s)
    host: Any = Idle()
    watch = AdvanceWatch(_session(), [_query(trigger, interval_s)], journal, host, 3600.0)
    clock.now_s += silence_s
    assert watch.advanced() is goes_on

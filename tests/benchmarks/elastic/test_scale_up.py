from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.elastic.scale_up import ScaleUp, ratios
from millrace.model.telemetry import BatchMetrics

START = datetime(2013, 1, 1, tzinfo=UTC)


def batches(*durations: tuple[int, float, int]) -> list[BatchMetrics]:
    """Batches that follow each other: slots, duration in seconds, rows."""
    found, end = [], START
    for number, (slots, duration_s, rows) in enumerate(durations):
        end += timedelta(seconds=duration_s)
        took = {"triggerExecution": round(1000 * duration_s)}
        found.append(BatchMetrics("p", "a", "q", end, 1, 0, number, slots, rows, durations_ms=took))
    return found


def at(second: float) -> float:
    return (START + timedelta(seconds=second)).timestamp()


def test_batches_around_a_change_are_compared_with_full_ones_of_their_size() -> None:
    few = [(2, 1.0, 10), (2, 10.0, 100), (2, 10.0, 100)]
    found = ratios(
        batches(*few, (2, 15.0, 100), (8, 12.0, 100), (8, 6.0, 100), (8, 5.0, 100), (8, 4.0, 100), (8, 4.0, 100)),
        ScaleUp(at(25.0), at(40.0)),
    )
    assert found is not None and (found.running, found.first) == pytest.approx((1.5, 1.5))


def test_change_with_too_few_full_batches_has_no_ratio() -> None:
    assert ratios(batches((2, 10.0, 100), (2, 10.0, 100), (8, 5.0, 100)), ScaleUp(at(12.0), at(19.0))) is None

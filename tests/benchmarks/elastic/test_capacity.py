"""The fixed slots that a stream needs."""

from __future__ import annotations

import pytest

from benchmarks.elastic.capacity import BatchTime, fit, longest_lag_s, needed_slots


def test_batch_times_are_fitted_to_points() -> None:
    batch = fit([(10, 1.5), (10, 1.5), (40, 3.0), (40, 3.0)])
    assert (batch.fixed_s, batch.row_s, batch.rows_per_s) == pytest.approx((1.0, 0.05, 20))


def test_rows_wait_for_the_running_batch_and_their_own() -> None:
    assert longest_lag_s([10, 0, 0, 0, 0], BatchTime(1.0, 0.1)) == pytest.approx(2.0)
    assert longest_lag_s([10, 10, 0, 0, 0], BatchTime(1.0, 0.1)) == pytest.approx(3.0)


def test_lag_grows_without_end_if_slots_are_too_few() -> None:
    slow = BatchTime(0.0, 0.1)
    assert longest_lag_s([20] * 60, slow) > 50
    assert longest_lag_s([20] * 120, slow) > 100


def test_needed_slots_are_the_fewest_that_keep_the_goal() -> None:
    times = {slots: BatchTime(0.5, 0.1 / slots) for slots in (2, 4, 6, 8)}
    assert needed_slots([10] * 60, times, 20.0) == 2
    assert needed_slots([25] * 60, times, 5.0) == 4
    assert needed_slots([500] * 60, times, 5.0) == 8


def test_short_peak_may_be_worked_off_within_the_goal() -> None:
    times = {slots: BatchTime(0.5, 0.1 / slots) for slots in (2, 4, 6, 8)}
    counts = [1] * 30 + [60] * 4 + [1] * 30
    assert needed_slots(counts, times, 20.0) < needed_slots(counts, times, 4.0)

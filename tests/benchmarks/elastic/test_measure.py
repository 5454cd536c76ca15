"""The cost and the result of a run."""

from __future__ import annotations

import pytest

from benchmarks.elastic.measure import (
    Cores,
    around,
    behind_s,
    core_seconds,
    downtime_s,
    gaps_s,
    latency_s,
    longest_lag_s,
)
from tests.benchmarks.elastic.timelines import timeline


def test_core_seconds_count_only_the_observed_time() -> None:
    held = [Cores(0.0, 10.0, 2), Cores(5.0, None, 4), Cores(30.0, 40.0, 8)]
    assert core_seconds(held, 2.0, 20.0) == 2 * 8 + 4 * 15


def test_lag_is_the_age_of_the_oldest_waiting_row() -> None:
    run = timeline([(0.0, 10), (5.0, 10)], [(4.0, 10), (30.0, 10)])
    assert longest_lag_s(run, 30.0) == pytest.approx(25.0, abs=0.3)
    assert behind_s(run, 30.0, max_lag_s=20.0) == pytest.approx(5.0, abs=0.3)
    assert behind_s(run, 30.0, max_lag_s=25.0) == 0


def test_latency_counts_rows_not_commits() -> None:
    run = timeline([(0.0, 1), (1.0, 99)], [(11.0, 1), (12.0, 99)])
    assert latency_s(run, 0.5) == 11.0
    assert latency_s(run, 0.005) == 11.0


def test_latency_of_a_row_ends_with_its_own_batch() -> None:
    run = timeline([(0.0, 90), (1.0, 10)], [(2.0, 90), (21.0, 10)])
    assert (latency_s(run, 0.5), latency_s(run, 0.95)) == (2.0, 20.0)


def test_gap_begins_when_a_row_waits() -> None:
    run = timeline([(0.0, 10), (8.0, 10), (8.5, 10)], [(3.0, 10), (9.5, 10), (12.0, 10)])
    assert gaps_s(run, [(1.0, 3.0), (9.0, 9.5), (10.5, 12.0)]) == [1.0, 1.0]


def test_gap_without_waiting_rows_is_zero() -> None:
    run = timeline([(0.0, 10)], [(3.0, 10), (9.0, 0)])
    assert gaps_s(run, [(1.0, 3.0), (8.0, 9.0)]) == []


def test_downtime_is_the_excess_over_the_usual_gap() -> None:
    assert downtime_s([0.1, 0.4, 6.2, 11.2], usual_s=0.2) == 17.0
    assert downtime_s([0.1, 0.6], usual_s=0.2) == 0


def test_batches_around_a_change_are_those_it_overlaps() -> None:
    batches = [(0.0, 2.0), (2.0, 5.0), (5.0, 9.0), (9.0, 20.0)]
    assert around(batches, (5.5, 8.0)) == (4.0, 3.0)
    assert around(batches, (4.0, 8.0)) == (4.0, 2.0)


@pytest.mark.parametrize("change", [(0.5, 1.0), (30.0, 31.0)])
def test_change_without_batches_before_or_around_it_is_unknown(change: tuple[float, float]) -> None:
    assert around([(0.0, 2.0), (2.0, 5.0)], change) is None

"""Load and batches of synthetic pipelines."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from benchmarks.many.load import CYCLE_S, STEP_S, Silences, SyntheticQuery, rate_at

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_every_pipeline_changes_once_per_twenty_minutes_and_none_with_another() -> None:
    changes = [
        second
        for place in range(10)
        for second in range(1, int(2 * STEP_S))
        if rate_at(place, 10, second) != rate_at(place, 10, second - 1)
    ]
    assert len(changes) == len(set(changes)) == 20


@pytest.mark.parametrize(("after_s", "slots", "keeps_up"), [(0.0, 2, True), (STEP_S, 2, False), (STEP_S, 5, True)])
def test_five_slots_keep_up_with_the_high_rate_and_two_with_the_low(after_s: float, slots: int, keeps_up: bool) -> None:
    query = SyntheticQuery("a", 0, 1)
    batches = [query.batch(after_s, NOW, slots) for _ in range(10)]
    assert (batches[-1].backlog_rows == 0) == keeps_up
    assert batches[-1].source_end == sum(b.rows_in for b in batches) + (batches[-1].backlog_rows or 0)
    assert all(b.duration_s <= 5.0 for b in batches)
    assert [b.batch_id for b in batches] == list(range(10))


def test_silences_begin_on_request_and_return_every_cycle() -> None:
    silences = Silences()
    assert not silences.holds(1e6)
    silences.start(1000.0)
    silent = [second for second in range(990, 1540) if silences.holds(float(second))]
    ends = [1140 + CYCLE_S * n for n in range(3)]
    assert silent == [*range(1000, 1140), *range(int(ends[1]) - 80, int(ends[1])), *range(int(ends[2]) - 80, 1520)]

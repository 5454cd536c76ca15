"""The streams."""

from __future__ import annotations

import pytest

from benchmarks.elastic.streams import day, random_walk, sawtooth, silence, step6, stream, taxis, trace


def test_step_is_six_times_the_load_and_back() -> None:
    counts = stream("step6", step6, 40, peak=60).counts
    assert (counts[0], counts[20], counts[39]) == (10, 60, 10)
    assert max(counts) == 60


def test_night_has_no_rows_and_the_morning_has_all_at_once() -> None:
    counts = stream("silence", silence, 40, peak=50).counts
    assert sum(counts[10:26]) == 0
    assert counts[26] == 50


def test_sawtooth_falls_at_once() -> None:
    counts = stream("sawtooth", sawtooth, 60, peak=50).counts
    assert counts[19] > 45
    assert counts[20] <= 6


def test_day_has_a_quiet_night_and_reaches_the_peak() -> None:
    made = stream("day", day, 48, peak=100)
    assert max(made.counts[:8]) < 10
    assert 95 <= max(made.counts) <= 100


@pytest.mark.parametrize("peak", [20.0, 5000.0])
def test_rows_match_the_count_in_order_each_once(peak: float) -> None:
    made = stream("step6", step6, 20, peak=peak)
    rows = made.rows()
    assert rows.num_rows == sum(made.counts) + 1
    times = rows["event_time"].to_pylist()
    assert times == sorted(times)
    assert len(set(rows["row_id"].to_pylist())) == rows.num_rows


@pytest.mark.parametrize("seed", range(5))
def test_walk_wanders_between_a_twentieth_and_the_peak(seed: int) -> None:
    rates = [random_walk(seed)(share / 200) for share in range(201)]
    assert max(rates) == pytest.approx(1.0, abs=0.05) and min(rates) >= 0.05
    assert rates == [random_walk(seed)(share / 200) for share in range(201)]
    assert rates != [random_walk(seed + 1)(share / 200) for share in range(201)]


def test_taxis_follow_a_recorded_day_if_the_trace_exists() -> None:
    if not trace().is_file():
        with pytest.raises(FileNotFoundError):
            taxis()
        return
    rates = list(map(taxis(), [0.0, 0.25, 0.5, 0.75, 1.0]))
    assert all(0 < rate <= 1 for rate in rates) and len(set(rates)) > 2

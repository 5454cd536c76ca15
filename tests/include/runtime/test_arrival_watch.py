from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millrace.runtime.arrival_watch import Arrival, ArrivalWatch, Excess

RATE, FOR_S = 40.0, 2.0


def due_after(pieces: list[tuple[float, float]]) -> float | None:
    """Return when an excess is seen for chunks, each the seconds since the previous one and its rows."""
    excess, now = Excess(RATE, 0.0), 0.0
    for pause, rows in pieces:
        now += pause
        excess.add(Arrival(now, round(rows)))
        if excess.exceeds(FOR_S):
            return now
    return None


@given(pauses=st.lists(st.floats(0.5, 60), min_size=5, max_size=60), share=st.floats(0.1, 0.97))
def test_sustainable_load_is_no_excess_however_rarely_its_source_commits(pauses, share) -> None:
    assert due_after([(pause, share * RATE * pause) for pause in pauses]) is None


@given(low=st.floats(0.3, 0.9), high=st.floats(1.05, 1.3), every=st.integers(1, 5))
def test_arrival_that_fluctuates_causes_nothing_unless_its_average_is_above_the_rate(low, high, every) -> None:
    swing = [(1.0, RATE * (high if n // every % 2 else low)) for n in range(200)]
    mean = (low + high) / 2
    if mean < 0.97 and (high - 1) * every < FOR_S:
        assert due_after(swing) is None


def test_doubled_load_is_seen_within_three_seconds_and_with_its_rate() -> None:
    calm, rise = [(1.0, 0.8 * RATE)] * 30, [(1.0, 2 * RATE)] * 10
    assert 30 < (due_after(calm + rise) or 0) <= 33
    excess = Excess(RATE, 0.0)
    for n, (_, rows) in enumerate(calm + rise):
        excess.add(Arrival(n + 1.0, round(rows)))
    assert 1.9 * RATE < excess.arrival_rows_per_s < 2.1 * RATE


def test_one_large_chunk_is_no_rise_until_more_follows() -> None:
    assert due_after([(1.0, 20), (1.0, 1000)]) is None
    assert due_after([(1.0, 20), (1.0, 1000), (1.0, 100)]) == 3.0


def test_watch_counts_each_runs_rows_and_starts_over_after_a_gap() -> None:
    watch = ArrivalWatch()
    watch.reached("a", 100, 1.0)
    watch.reached("b", 5, 1.0)
    assert watch.take() == []
    watch.reached("a", 130, 2.0)
    watch.reached("a", 130, 3.0)
    watch.reached("b", 9, 3.0)
    assert watch.take() == [Arrival(2.0, 30), Arrival(3.0, 4)]
    watch.reached("a", None, 4.0)  # unknown
    watch.reached("a", 500, 5.0)
    watch.reached("b", 2, 5.0)  # its source was recreated
    watch.reached("b", 4, 6.0)
    assert watch.take() == [Arrival(6.0, 2)]
    watch.forget("a")
    watch.reached("a", 900, 7.0)
    assert watch.take() == []


def test_watch_shows_how_long_the_oldest_batch_has_been_running() -> None:
    watch = ArrivalWatch()
    assert watch.longest_batch_s(10.0) == 0
    watch.runs("a", 4.0)
    watch.runs("b", 7.0)
    assert watch.longest_batch_s(10.0) == 6.0
    watch.runs("a", None)
    assert watch.longest_batch_s(10.0) == 3.0

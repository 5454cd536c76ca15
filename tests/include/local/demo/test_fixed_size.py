"""The demo's rival: the smallest fixed size that keeps the goal, with the lag that it would have had."""

from __future__ import annotations

import numpy as np
import pytest

from millrace.lake.control_tables import ControlTables
from millrace.local.demo.fixed_size import FixedSize, smallest_fixed_size, with_fixed_size
from millrace.local.demo.timeline import Timeline, read_timeline
from millrace.reporting.recorded_throughputs import RecordedThroughput
from tests.include.local.demo.synthetic import FIXED_S, PER_SLOT, Run, at

KNOWN = RecordedThroughput({1: PER_SLOT, 8: 8 * PER_SLOT}, {1: FIXED_S, 8: FIXED_S})


def timeline(run: Run, until_s: float) -> Timeline:
    return read_timeline(run.spec, ControlTables(run.lake), run.source, at(until_s))


def fed(run: Run, rows: int, seconds: int, measured: bool = True) -> Timeline:
    """A driver of one slot that was ready after 4 s; rows per second arrive from then on."""
    run.launch(0, 4, 1)
    for second in range(5, 5 + seconds):
        run.arrive(second, rows)
    run.evaluate(20, rows, None, "measured", measured)
    return timeline(run, 5 + seconds)


def test_batches_of_a_fixed_size_follow_each_other_as_fast_as_possible(run: Run) -> None:
    line = with_fixed_size(fed(run, 25, 40), KNOWN, 1)
    assert line.batch_s[0] == pytest.approx(5 + FIXED_S + 25 / PER_SLOT)
    steps = np.diff(line.batch_s), np.diff(line.batch_rows)
    assert steps[0] == pytest.approx(FIXED_S + steps[1] / PER_SLOT)
    assert line.batch_rows[-1] <= line.arrival_rows[-1]


def test_batches_of_a_limited_source_stay_within_its_limit(run: Run) -> None:
    limited = RecordedThroughput(KNOWN.rates, KNOWN.fixed_s, batch_rows=40.0)
    line = with_fixed_size(fed(run, 100, 20), limited, 8)
    assert np.diff(line.batch_rows, prepend=0).max() == 40


@pytest.mark.parametrize(("rate", "slots"), [(20, 1), (60, 2), (160, 4)])
def test_smallest_fixed_size_is_the_first_that_keeps_the_goal(run: Run, rate: int, slots: int) -> None:
    found = smallest_fixed_size(run.spec, fed(run, rate, 60))
    assert (found.slots, found.keeps, found.behind_s) == (slots, True, 0.0)
    assert 0 < (found.worst_lag_s or 0) <= run.spec.objective.max_lag_s
    if slots > 1:
        less = with_fixed_size(timeline(run, 65), KNOWN, slots - 1)
        assert less.oldest_waiting_s(np.arange(0.0, 65, 0.5)).max() > run.spec.objective.max_lag_s


def test_fixed_size_if_none_keeps_the_goal_is_the_one_least_behind(run: Run) -> None:
    found = smallest_fixed_size(run.spec, fed(run, 2000, 40))
    assert (found.slots, found.keeps) == (8, False)
    assert (found.behind_s or 0) > 0


def test_fixed_size_without_measurements_is_the_largest_and_says_so(run: Run) -> None:
    assert smallest_fixed_size(run.spec, fed(run, 20, 10, measured=False)) == FixedSize(8, False, None, None)

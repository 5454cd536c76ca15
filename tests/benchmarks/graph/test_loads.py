"""The rates of each scenario."""

from __future__ import annotations

import pytest

from benchmarks.graph.loads import RATES, Load, papers_sequence, step_x4


def test_rows_of_each_second_add_up_to_the_rates() -> None:
    load = Load((2.5, 10.0), (4, 2))
    assert load.counts == (2, 3, 2, 3, 10, 10)
    assert (load.length_s, load.changes_s) == (6, (4.0,))


def test_step_rises_to_four_times_the_rate_and_falls_back() -> None:
    load = step_x4(10.0, (5, 6, 7))
    low, high, back = load.rows_per_s
    assert (high / low, back) == (pytest.approx(4.0), low)
    assert load.changes_s == (5.0, 11.0)


def test_sequence_is_the_papers_and_other_seeds_have_other_orders() -> None:
    first, other = papers_sequence(10.0, 3, 0), papers_sequence(10.0, 3, 1)
    assert first.rows_per_s == (90.0, 20.0, 30.0, 100.0, 10.0, 40.0, 50.0, 80.0)
    assert other.rows_per_s != first.rows_per_s and len(set(other.rows_per_s)) == RATES
    assert other == papers_sequence(10.0, 3, 1)
    assert len(first.changes_s) == RATES - 1


def test_rate_that_stays_is_no_change() -> None:
    assert Load((2.0, 2.0, 3.0), (1, 1, 1)).changes_s == (2.0,)

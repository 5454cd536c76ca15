"""A running batch is reported if more arrives than before, or if it takes longer than usual."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from millrace.runtime.telemetry.running_batch import has_risen, is_overdue, rate_since
from tests.include.control.synthetic import App

ROW = App().batch(100.0)


def test_rate_since_a_row_is_the_growth_of_the_source() -> None:
    end, later = (ROW.source_end or 0) + 500, ROW.time + timedelta(seconds=10)
    assert rate_since(ROW, end, later) == 50.0
    assert rate_since(ROW, None, later) is None
    assert rate_since(replace(ROW, source_end=None), end, later) is None
    assert rate_since(ROW, end, ROW.time) is None, "the clock was set back"


@pytest.mark.parametrize(
    ("rate", "reported", "risen"),
    [(130.0, 100.0, True), (120.0, 100.0, False), (1.0, 0.0, True), (0.0, 0.0, False), (50.0, None, False)],
)
def test_rise_is_a_quarter_above_the_reported_rate(rate: float, reported: float | None, risen: bool) -> None:
    assert has_risen(rate, reported) is risen


def test_batch_is_overdue_from_one_and_a_half_times_the_usual() -> None:
    assert is_overdue(15.1, 10.0) and not is_overdue(14.9, 10.0)

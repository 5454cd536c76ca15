"""What slots cost."""

from __future__ import annotations

import pytest

from millrace.model.spec_sections import Cost


@pytest.mark.parametrize(
    ("core_hours", "shown"), [(0.0, "0.00 EUR"), (12.25, "0.49 EUR"), (30_000.0, "1,200.00 EUR"), (0.02, "0.0008 EUR")]
)
def test_core_hours_have_a_price(core_hours: float, shown: str) -> None:
    assert Cost(core_hour=0.04, currency="EUR").of(core_hours) == shown


def test_currency_may_be_left_out() -> None:
    assert Cost(core_hour=0.5).of(3) == "1.50"

from __future__ import annotations

from datetime import timedelta

import pytest

from optimizers.conttune.history import levels
from optimizers.conttune.options import Options
from optimizers.conttune.plateau import ceiling
from tests.optimizers.builders import NOON, observed


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ({1: 100.0, 2: 190.0, 4: 360.0, 8: 650.0}, None),
        ({1: 100.0, 4: 240.0, 8: 370.0}, None),  # badly, but it scales
        ({1: 100.0, 2: 190.0, 4: 195.0}, 2),
        ({1: 100.0, 4: 200.0, 5: 202.0, 6: 201.0, 8: 203.0}, 4),  # creeping along a flat curve
        ({2: 190.0, 4: 150.0}, 2),  # retrograde
        ({7: 700.0, 8: 705.0}, None),  # one step among many is within the noise
        ({3: 300.0}, None),
        ({}, None),
    ],
)
def test_ceiling_when_more_slots_bring_nothing_then_is_the_lowest_such_level(
    measured: dict[int, float], expected: int | None
) -> None:
    assert ceiling(levels(observed(measured), 5), NOON, Options()) == expected


def test_ceiling_when_the_measurement_gets_old_then_no_longer_stands() -> None:
    known = levels(observed({2: 190.0, 4: 195.0}), 5)
    assert ceiling(known, NOON + timedelta(minutes=59), Options()) == 2
    assert ceiling(known, NOON + timedelta(minutes=61), Options()) is None

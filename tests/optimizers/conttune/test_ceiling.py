from __future__ import annotations

from datetime import timedelta

import pytest

from millrace.optimizers.conformance.builders import NOON, observed
from millrace.optimizers.conttune.observed_levels import find_ceiling, observed_levels
from millrace.optimizers.conttune.options import FlowOptions


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ({1: 100.0, 2: 190.0, 4: 360.0, 8: 650.0}, None),
        ({1: 100.0, 4: 240.0, 8: 370.0}, None),  # badly, but it scales
        ({1: 100.0, 2: 190.0, 4: 195.0}, 2),
        ({1: 100.0, 4: 200.0, 5: 202.0, 6: 201.0, 8: 203.0}, 4),  # creeping along a flat curve
        ({2: 190.0, 4: 150.0}, 2),  # retrograde
        ({2: 190.0, 4: 150.0, 8: 600.0}, None),  # a dip on the way does not count
        ({7: 700.0, 8: 705.0}, None),  # one step among many is within the noise
        ({3: 300.0}, None),
        ({}, None),
    ],
)
def test_ceiling_is_the_lowest_level_that_more_slots_do_not_improve(
    measured: dict[int, float], expected: int | None
) -> None:
    assert find_ceiling(observed_levels(observed(measured), 5), NOON, FlowOptions()) == expected


def test_ceiling_expires_with_the_age_of_the_measurement() -> None:
    known = observed_levels(observed({2: 190.0, 4: 195.0}), 5)
    assert find_ceiling(known, NOON + timedelta(minutes=59), FlowOptions()) == 2
    assert find_ceiling(known, NOON + timedelta(minutes=61), FlowOptions()) is None
    assert find_ceiling(known, NOON + timedelta(minutes=61), FlowOptions(ineffective_for_s=7200.0)) == 2


def test_ceiling_when_the_share_that_counts_is_set_then_decides_by_it() -> None:
    known = observed_levels(observed({6: [600.0] * 9, 8: [648.0] * 9}), 9)  # a third of what the prior says
    assert find_ceiling(known, NOON, FlowOptions()) is None
    assert find_ceiling(known, NOON, FlowOptions(ineffective_thr=0.6)) == 6


def test_ceiling_is_not_claimed_from_unsure_measurements() -> None:
    wild = {6: [500.0, 700.0, 600.0, 560.0, 640.0], 8: [480.0, 720.0, 600.0, 550.0, 650.0]}
    assert find_ceiling(observed_levels(observed(wild), 5), NOON, FlowOptions()) is None
    calm = {6: [598.0, 602.0, 600.0, 600.0, 600.0], 8: [599.0, 601.0, 600.0, 600.0, 600.0]}
    assert find_ceiling(observed_levels(observed(calm), 5), NOON, FlowOptions()) == 6

from __future__ import annotations

import pytest

from benchmarks.conttune.parity import FIXTURES, mismatches
from millrace.optimizers.registry import create

PUBLISHED = {"rates": "producer", "known_arrival_rate": False}


def test_mismatches_when_ds2_is_as_published_then_there_are_none() -> None:
    assert len(FIXTURES) == 6
    assert mismatches(create("ds2", PUBLISHED)) == 0


@pytest.mark.parametrize("change", [{"factor": 0.3}, {"rates": "consumer"}])
def test_mismatches_when_the_rule_is_different_then_are_counted(change: dict[str, object]) -> None:
    assert mismatches(create("ds2", {**PUBLISHED, **change})) >= 4

from __future__ import annotations

from typing import Any

import pytest

from include.model.errors import MillraceError
from optimizers.esj.options import Options, Setting, parse
from optimizers.esj.thresholds import Thresholds

SECTION = {"capacity": 1000, "window_s": 60.0}


def test_parse_when_only_the_join_is_told_then_the_rest_has_its_default() -> None:
    assert parse(SECTION) == Setting(1000, 60.0)
    assert parse(SECTION).start == 1


def test_parse_when_all_is_told_then_is_taken() -> None:
    found = parse(
        {
            **SECTION,
            "workers": {"min": 2, "max": 5},
            "expected_rows_per_s": 100.0,
            "options": {"tau2": 0.6, "base": 0.0, "shedding": "quadratic", "trigger": "window", "lasts_s": 0},
        }
    )
    assert found.options == Options(
        base=0.0, shedding="quadratic", trigger="window", lasts_s=0, thresholds=Thresholds(0.15, 0.3, 0.6, 0.9)
    )
    assert (found.least, found.most, found.start) == (2, 5, 5), "20 are wanted for the expected rate"


@pytest.mark.parametrize(("rate", "start"), [(None, 2), (0.0, 2), (30.0, 5), (1e9, 7)])
def test_start_when_a_rate_is_expected_then_is_for_that_within_bounds(rate: float | None, start: int) -> None:
    section = {**SECTION, "workers": {"min": 2, "max": 7}, "expected_rows_per_s": rate}
    assert parse(section).start == start


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"options": {"tau4": 0.5}}, r"join\.options\.tau4: got 0.5; allowed: .*tau0, tau1"),
        ({"options": {"thresholds": {}}}, r"join\.options\.thresholds"),
        ({"options": {"tau1": 0.9}}, r"join\.options\.tau0\.\.tau3: .*ascending order"),
        ({"options": {"base": 1.5}}, r"join\.options\.base: got 1.5; allowed: a number in \[0, 1\]"),
        ({"options": {"alpha": 0.8}}, r"join\.options\.alpha: .*\(0, 0.8\)"),
        ({"options": {"shedding": "cubic"}}, r"join\.options\.shedding: .*linear, quadratic"),
        ({"options": {"trigger": "both"}}, r"join\.options\.trigger: .*offered, window"),
        ({"options": {"block_size": "big"}}, r"join\.options\.block_size: .*optimum, literal"),
        ({"options": {"lasts_s": -1}}, r"join\.options\.lasts_s"),
        ({"options": {"cool_s": "long"}}, r"join\.options\.cool_s"),
        ({"options": {"shed_step": 0}}, r"join\.options\.shed_step"),
        ({"capacity": 1}, r"join\.capacity"),
        ({"capacity": 10.5}, r"join\.capacity"),
        ({"window_s": -1.0}, r"join\.window_s"),
        ({"workers": {"min": 3, "max": 2}}, r"join\.workers\.min: got 3; allowed: <= workers.max = 2"),
        ({"workers": {"min": 0}}, r"join\.workers\.min"),
        ({"expected_rows_per_s": -1.0}, r"join\.expected_rows_per_s"),
    ],
)
def test_parse_when_something_is_wrong_then_says_what_and_what_is_allowed(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(MillraceError, match=message):
        parse({**SECTION, **wrong})

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from include.contracts.errors import MillraceError
from optimizers.conttune.options import CORRECTED, LITERAL, Options, parse

CORRECTIONS = (
    "known_arrival_rate",
    "catch_up",
    "unstick",
    "stop_rule",
    "micro_batch",
    "monotone",
    "ineffective_stop",
    "whole_windows",
    "source_splits",
)


def test_preset_when_not_named_then_every_correction_is_on() -> None:
    assert parse({}) == CORRECTED
    assert all(getattr(CORRECTED, name) is True for name in CORRECTIONS)
    assert CORRECTED.surrogate == "power_law"


def test_preset_when_literal_then_every_correction_is_off() -> None:
    literal = parse({"preset": "literal"})
    assert literal == LITERAL
    assert all(getattr(literal, name) is False for name in CORRECTIONS)
    assert (literal.surrogate, literal.exponent, literal.big, literal.small) == ("rbf", 1.0, True, "cbo")
    assert (literal.top_k, literal.alpha, literal.acquisition) == (5, 3.0, "safe")


def test_switches_when_listed_then_are_all_in_one_of_the_presets() -> None:
    switches = {f.name for f in fields(Options) if isinstance(getattr(CORRECTED, f.name), bool)}
    assert switches == {*CORRECTIONS, "big"}


def test_option_when_set_beside_a_preset_then_amends_it() -> None:
    options = parse({"preset": "literal", "alpha": 0, "unstick": True})
    assert (options.alpha, options.unstick, options.stop_rule) == (0, True, False)


def test_alpha_when_infinite_then_is_allowed() -> None:
    assert parse({"alpha": math.inf}).alpha == math.inf


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("alpha", -1, r"a number in \[0, inf\]"),
        ("alpha", math.nan, "a number in"),
        ("alpha", "3", "a number in"),
        ("top_k", 0, "a whole number >= 1"),
        ("top_k", 2.0, "a whole number"),
        ("top_k", True, "a whole number"),
        ("slack", 1.0, r"a number in \[0, 1\)"),
        ("slack", True, "a number in"),
        ("decision_thr", math.inf, r"a number in \[0, inf\)"),
        ("backpressure_thr", 10, r"a number in \[0, 1\]"),
        ("core_min_thr", 0.9, r"below core_max_thr \(0\.7\)"),
        ("confidence", 0.2, r"a number in \[0\.5, 1\)"),
        ("exponent", 0, r"a number in \(0, 1\.5\]"),
        ("small", "bo", "cbo, linear, none"),
        ("small", ["cbo"], "cbo, linear, none"),
        ("acquisition", "ei", "safe, cei"),
        ("surrogate", None, "power_law, rbf"),
        ("big", 1, "true or false"),
        ("catch_up", "yes", "true or false"),
        ("preset", "paper", "corrected, literal"),
        ("preset", ["literal"], "corrected, literal"),
        ("target", 0.8, "acquisition, alpha"),
    ],
)
def test_value_when_not_allowed_then_is_told_with_key_range_and_remedy(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(MillraceError, match=allowed) as told:
        parse({name: value})
    assert told.value.key == f"tuner.options.{name}"
    assert told.value.remedy.endswith(".")

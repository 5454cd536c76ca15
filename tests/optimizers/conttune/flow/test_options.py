from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from include.model.errors import MillraceError
from optimizers.conttune.flow.options import ALLOWED, Options, parse


def test_options_when_none_is_set_then_have_their_defaults() -> None:
    assert parse({}) == Options()
    assert parse({"risk": 0.1, "proactive": True}) == Options(risk=0.1, proactive=True)


def test_options_when_listed_then_each_says_what_it_allows_and_switches_have_no_range() -> None:
    assert set(ALLOWED) == {f.name for f in fields(Options)}
    switches = {f.name for f in fields(Options) if isinstance(getattr(Options(), f.name), bool)}
    assert switches == {name for name, allowed in ALLOWED.items() if allowed is None}
    assert "proactive" in switches and not Options().proactive


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("risk", 0.5),
        ("risk", 1e-6),
        ("slack", 0),
        ("reshave", 0.99),
        ("tolerance", 0),
        ("exponent", 1.5),
        ("exponent_sd", 1),
        ("reach", 1),
        ("top_k", 1),
        ("ineffective_thr", 0),
        ("ineffective_thr", 1),
        ("ineffective_for_s", 0.5),
        ("drift", False),
    ],
)
def test_value_when_at_the_end_of_its_range_then_is_taken(name: str, value: Any) -> None:
    assert getattr(parse({name: value}), name) == value


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("risk", 0, r"a number in \(0, 0\.5\]"),
        ("risk", 0.51, "a number in"),
        ("risk", math.nan, "a number in"),
        ("risk", "0.1", "a number in"),
        ("risk", True, "a number in"),
        ("slack", 1, r"a number in \[0, 1\)"),
        ("slack", -0.1, "a number in"),
        ("reshave", 1.0, r"a number in \[0, 1\)"),
        ("spend", 1, r"a number in \[0, 1\)"),
        ("tolerance", -1, r"a number in \[0, inf\)"),
        ("tolerance", math.inf, "a number in"),
        ("exponent", 0, r"a number in \(0, 1\.5\]"),
        ("exponent_sd", 1.1, r"a number in \(0, 1\]"),
        ("reach", 0.9, r"a number in \[1, inf\)"),
        ("reach", None, "a number in"),
        ("top_k", 0, "a whole number >= 1"),
        ("top_k", 2.0, "a whole number"),
        ("top_k", True, "a whole number"),
        ("ineffective_thr", 1.01, r"a number in \[0, 1\]"),
        ("ineffective_for_s", 0, r"a number in \(0, inf\)"),
        ("catch_up", 1, "true or false"),
        ("drift", "yes", "true or false"),
        ("fluctuation", None, "true or false"),
        ("proactive", 0, "true or false"),
        ("whole_windows", "on", "true or false"),
        ("source_splits", [], "true or false"),
        ("hysteresis", 0.1, "catch_up, drift, exponent"),
        ("preset", "corrected", "catch_up, drift, exponent"),
    ],
)
def test_value_when_not_allowed_then_is_told_with_key_value_range_and_remedy(
    name: str, value: Any, allowed: str
) -> None:
    with pytest.raises(MillraceError, match=allowed) as told:
        parse({name: value})
    assert told.value.key == f"tuner.options.{name}"
    assert told.value.value is value
    assert told.value.remedy.endswith(".")


def test_options_when_made_in_code_then_are_checked_too() -> None:
    with pytest.raises(MillraceError, match="whole number"):
        Options(top_k=0)

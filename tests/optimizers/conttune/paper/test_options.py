from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from include.model.errors import MillraceError
from optimizers.conttune.paper.options import LITERAL, STRONG, Options, parse

STRENGTHS = ("known_arrival_rate", "unstick", "stop_rule")


def test_preset_when_not_named_then_is_the_paper_as_written() -> None:
    assert parse({}) == LITERAL == Options()
    assert not any(getattr(LITERAL, name) for name in STRENGTHS)
    assert (LITERAL.big, LITERAL.small, LITERAL.surrogate, LITERAL.headroom) == (True, "cbo", "rbf", 0.0)
    assert (LITERAL.top_k, LITERAL.alpha, LITERAL.acquisition) == (5, 3.0, "safe")


def test_preset_when_strong_then_has_what_the_published_figures_need() -> None:
    strong = parse({"preset": "strong"})
    assert strong == STRONG
    assert all(getattr(strong, name) for name in STRENGTHS)


def test_switches_when_listed_then_are_all_told_apart_by_the_presets() -> None:
    switches = {f.name for f in fields(Options) if isinstance(getattr(LITERAL, f.name), bool)}
    assert switches == {*STRENGTHS, "big"}


def test_option_when_set_beside_a_preset_then_amends_it() -> None:
    options = parse({"preset": "strong", "alpha": 0, "unstick": False})
    assert (options.alpha, options.unstick, options.stop_rule) == (0, False, True)


def test_big_when_lambda_is_known_then_is_not_needed() -> None:
    assert LITERAL.uses_big
    assert not STRONG.uses_big and not parse({"big": False}).uses_big


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
        ("headroom", -0.1, r"a number in \[0, inf\)"),
        ("decision_thr", math.inf, r"a number in \[0, inf\)"),
        ("backpressure_thr", 10, r"a number in \[0, 1\]"),
        ("core_min_thr", 0.9, r"below core_max_thr \(0\.7\)"),
        ("small", "bo", "cbo, linear, none"),
        ("small", ["cbo"], "cbo, linear, none"),
        ("acquisition", "ei", "safe, cei"),
        ("surrogate", None, "rbf, rbf_white"),
        ("big", 1, "true or false"),
        ("stop_rule", "yes", "true or false"),
        ("preset", "paper", "literal, strong"),
        ("preset", ["literal"], "literal, strong"),
        ("target", 0.8, "acquisition, alpha"),
    ],
)
def test_value_when_not_allowed_then_is_told_with_key_range_and_remedy(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(MillraceError, match=allowed) as told:
        parse({name: value})
    assert told.value.key == f"tuner.options.{name}"
    assert told.value.remedy.endswith(".")

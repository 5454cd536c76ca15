from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import pytest
from pydantic import Field, model_validator

from millrace.optimizers.albic.options import PlacementOptions
from millrace.optimizers.api import MillraceError, Options, allowed_values
from millrace.optimizers.conttune.options import FlowOptions
from millrace.optimizers.drfm.options import HorizonMethodOptions, PaperMethodOptions
from millrace.optimizers.esj.options import EsjOptions, JoinPolicy, WorkerBounds
from millrace_rivals.conttune.options import ContTuneOptions
from millrace_rivals.dhalion import DhalionOptions
from millrace_rivals.dragster import DragsterOptions
from millrace_rivals.ds2 import Ds2Options
from millrace_rivals.random_search import RandomSearchOptions


class Inner(Options):
    section: ClassVar[str] = "outer.inner"
    ratio: float = Field(0.5, gt=0, lt=1)


class Outer(Options):
    section: ClassVar[str] = "outer"
    count: int = Field(ge=1)
    most: int = Field(4, ge=1, le=8)
    ratio: float = Field(0.5, ge=0, le=1)
    limit: float = Field(3.0, ge=0, allow_inf_nan=True)
    reach: float = Field(1.0, gt=0)
    word: Literal["this", "that"] = "this"
    switch: bool = True
    cap: int | None = Field(None, ge=1)
    inner: Inner = Field(default_factory=Inner, strict=False)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.count == 7:
            raise ValueError("seven is taken")
        return self


@pytest.mark.parametrize(
    ("given", "key", "value", "allowed"),
    [
        ({}, "outer.count", None, "a whole number >= 1"),
        ({"count": 0}, "outer.count", 0, "a whole number >= 1"),
        ({"count": 2.0}, "outer.count", 2.0, "a whole number >= 1"),
        ({"count": True}, "outer.count", True, "a whole number >= 1"),
        ({"most": 9}, "outer.most", 9, "a whole number in [1, 8]"),
        ({"ratio": 1.1}, "outer.ratio", 1.1, "a number in [0, 1]"),
        ({"ratio": math.nan}, "outer.ratio", math.nan, "a number in [0, 1]"),
        ({"ratio": "0.1"}, "outer.ratio", "0.1", "a number in [0, 1]"),
        ({"ratio": None}, "outer.ratio", None, "a number in [0, 1]"),
        ({"limit": math.nan}, "outer.limit", math.nan, "a number in [0, inf]"),
        ({"reach": math.inf}, "outer.reach", math.inf, "a number in (0, inf)"),
        ({"word": "those"}, "outer.word", "those", "this, that"),
        ({"word": ["this"]}, "outer.word", ["this"], "this, that"),
        ({"switch": 1}, "outer.switch", 1, "true or false"),
        ({"cap": 0}, "outer.cap", 0, "a whole number >= 1"),
        ({"inner": {"ratio": 1}}, "outer.inner.ratio", 1, "a number in (0, 1)"),
        ({"inner": {"other": 1}}, "outer.inner.other", 1, "ratio"),
        ({"count": 7}, "outer", None, "seven is taken"),
        ({"other": 3}, "outer.other", 3, "count, cap, inner, limit, most, ratio, reach, switch, word"),
    ],
)
def test_value_that_is_not_allowed_is_named_with_range_and_remedy(
    given: Mapping[str, Any], key: str, value: Any, allowed: str
) -> None:
    with pytest.raises(MillraceError) as caught:
        Outer.read(given and {"count": 1, **given})
    assert (caught.value.key, sorted(caught.value.allowed.split(", "))) == (key, sorted(allowed.split(", ")))
    assert caught.value.value is value or caught.value.value == value or key == "outer"
    assert caught.value.remedy.endswith(".")


def test_values_at_the_ends_of_their_ranges_are_taken() -> None:
    ends = {"count": 1, "most": 8, "ratio": 0, "limit": math.inf, "word": "that", "switch": False, "cap": 1}
    assert Outer.read(ends).model_dump(exclude={"reach", "inner"}) == ends


def test_options_made_in_code_are_checked_too() -> None:
    with pytest.raises(MillraceError, match="whole number"):
        FlowOptions(top_k=0)
    with pytest.raises(MillraceError, match=r"tuner\.options\.1: got 2"):
        FlowOptions.read({1: 2})


def test_options_that_are_read_never_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        FlowOptions().risk = 0.3  # type: ignore[misc]


SWITCH, SHARE = "true or false", "a number in [0, 1)"
POSITIVE, NOT_NEGATIVE, COUNT = "a number in (0, inf)", "a number in [0, inf)", "a whole number >= 1"

FORECAST = {
    "method": "horizon, par, ari, ard, drf, drfm",
    "learns": SWITCH,
    **dict.fromkeys(("history", "relearn", "quiet", "season"), COUNT),
    **dict.fromkeys(("noise", "alpha", "gamma", "damping"), "a number in [0, 1]"),
    "memory": "a number in (0, 1]",
    "absurd": POSITIVE,
}


@pytest.mark.parametrize(
    ("options", "ranges"),
    [
        (
            FlowOptions,
            {
                "risk": "a number in (0, 0.5]",
                **dict.fromkeys(("slack", "reshave", "spend"), SHARE),
                **dict.fromkeys(("tolerance", "change_s"), NOT_NEGATIVE),
                "exponent": "a number in (0, 1.5]",
                "exponent_sd": "a number in (0, 1]",
                "reach": "a number in [1, inf)",
                "top_k": COUNT,
                "ineffective_thr": "a number in [0, 1]",
                "ineffective_for_s": POSITIVE,
                **dict.fromkeys(("catch_up", "drift", "fluctuation", "proactive"), SWITCH),
                **dict.fromkeys(("whole_windows", "source_splits", "contingencies"), SWITCH),
            },
        ),
        (
            ContTuneOptions,
            {
                "preset": "literal, strong",
                "small": "cbo, linear, none",
                "alpha": "a number in [0, inf]",
                "acquisition": "safe, cei",
                "surrogate": "rbf, rbf_white",
                "top_k": COUNT,
                "decision_thr": NOT_NEGATIVE,
                "backpressure_thr": "a number in [0, 1]",
                "core_min_thr": SHARE,
                "core_max_thr": "a number in (0, 1]",
                "headroom": NOT_NEGATIVE,
                "slack": SHARE,
                **dict.fromkeys(("big", "known_arrival_rate", "unstick", "stop_rule"), SWITCH),
            },
        ),
        (
            Ds2Options,
            {
                "rates": "consumer, producer",
                **dict.fromkeys(("factor", "decision_thr"), NOT_NEGATIVE),
                "slack": SHARE,
                "backpressure_thr": "a number in [0, 1]",
                **dict.fromkeys(("known_arrival_rate", "stop_rule"), SWITCH),
            },
        ),
        (
            DhalionOptions,
            {
                "backpressure_thr": "a number in (0, 1]",
                "scale_up_max": "a number in (1, inf)",
                "idle_thr": SHARE,
                "scale_down": "a number in (0, 1)",
            },
        ),
        (
            RandomSearchOptions,
            {"p_max": COUNT, "tolerance": NOT_NEGATIVE, "seed": COUNT, "known_arrival_rate": SWITCH},
        ),
        (DragsterOptions, {**dict.fromkeys(("beta", "step", "decision_thr"), NOT_NEGATIVE), "per_rate": SWITCH}),
        (
            EsjOptions,
            {
                **dict.fromkeys(("tau0", "tau1", "tau2", "tau3"), "a number in (0, 1]"),
                "base": "a number in [0, 1]",
                "shedding": "linear, quadratic",
                "trigger": "offered, window",
                **dict.fromkeys(("ahead", "lasts_s", "sheds_s", "cool_s", "block_margin"), NOT_NEGATIVE),
                "alpha": "a number in (0, 0.8)",
                "block_size": "optimum, literal",
                "shed_step": "a number in (0, 0.5]",
            },
        ),
        (
            PlacementOptions,
            {
                "method": "joint, albic, balancer",
                "framework": "integrated, non_integrated",
                "budget": "a number in [0, inf]",
                "cost": "count, state",
                "drain_mb": "a number in [0, inf]",
                "worth": "a number in [0, 1]",
                "rest_s": NOT_NEGATIVE,
                "remote_s_per_mb": NOT_NEGATIVE,
                "max_state_mb": POSITIVE,
                "max_memory_mb": POSITIVE,
                "max_busy_ratio": "a number in (0, 1]",
                "polish": SWITCH,
                "seed": "a whole number >= 0",
            },
        ),
        (
            HorizonMethodOptions,
            {
                **FORECAST,
                **dict.fromkeys(("ahead", "act", "pair_limit", "drains", "swaps"), COUNT),
                **dict.fromkeys(("margin", "move_price"), NOT_NEGATIVE),
                "patience": "a number in [0, 1]",
                **dict.fromkeys(("catch_up_s", "effort"), POSITIVE),
                "pairing": "a number in (0, 1]",
                "polish": SWITCH,
            },
        ),
        (
            PaperMethodOptions,
            {
                **FORECAST,
                **dict.fromkeys(("ahead", "tries"), COUNT),
                **dict.fromkeys(("accepts", "full"), "a number in (0, 1]"),
                "drains": "a number in [0, 1]",
                "latency_s": "a number in (0, inf]",
            },
        ),
        (WorkerBounds, {"min": COUNT, "max": COUNT}),
        (
            JoinPolicy,
            {
                "capacity": "a whole number >= 2",
                **dict.fromkeys(("window_s", "expected_rows_per_s"), NOT_NEGATIVE),
                **dict.fromkeys(("workers", "options")),
            },
        ),
    ],
)
def test_options_keep_their_names_and_ranges(options: type[Options], ranges: Mapping[str, str | None]) -> None:
    assert {name: allowed_values(field) for name, field in options.model_fields.items()} == ranges

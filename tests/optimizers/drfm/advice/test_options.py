from __future__ import annotations

import math
from typing import Any

import pytest

from include.model.errors import MillraceError
from optimizers.drfm.advice.options import METHODS, parse
from optimizers.drfm.forecast.holt import Holt
from optimizers.drfm.forecast.naive import Seasonal
from optimizers.drfm.strategies.compositions import STRATEGIES
from optimizers.registry import admission


def told(**section: Any) -> dict[str, Any]:
    return {"capacity": 10.0, **section}


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ({}, "admission.capacity"),
        ({"capacity": math.nan}, "admission.capacity"),
        ({"capacity": "4"}, "admission.capacity"),
        (told(options={"method": "best"}), "admission.options.method"),
        (told(options={"quiet": 0}), "admission.options.quiet"),
        (told(options={"margn": 1}), "admission.options.margn"),
        (told(options={"margin": -1}), "admission.options.margin"),
        (told(options={"method": "drf", "margin": 1}), "admission.options.margin"),
        (told(options={"accepts": 0.5}), "admission.options.accepts"),
        (told(options={"history": 0}), "admission.options.history"),
        (told(options={"learning": {}}), "admission.options.learning"),
        (told(options={"season": 0}), "admission.options.season"),
        (told(options={"season": 24, "alpha": 0.5}), "admission.options.alpha"),
        (told(streams={"a/b": {"minimun": 1.0}}), "admission.streams.a/b.minimun"),
        (told(streams={"a/b": {"minimum": 2.0, "maximum": 1.0}}), "admission.streams.a/b.maximum"),
        (told(streams={"a/b": {"transition": "leap"}}), "admission.streams.a/b.transition"),
        (told(streams={"a/b": {"maximum": 10.5}}), "admission.streams.a/b.maximum"),
        (told(streams={"a/b": {"maximum": 9.0}}, sizing={"query_s": 1.0}), "admission.streams.a/b.maximum"),
        (told(sizing={"query_s": 0.0}), "admission.sizing.query_s"),
        (told(sizing={"query_s": 1.0, "headroom": 1.0}), "admission.sizing.headroom"),
        (told(sizing={"query_s": 1.0, "latency_s": 2.0, "through_s": [1.0, 1.0, 1.0]}), "admission.sizing.latency_s"),
        (told(sizing={"query_s": 1.0, "colour": 1.0}), "admission.sizing.colour"),
    ],
)
def test_options_when_wrong_then_are_refused_by_name_with_what_is_allowed(section: dict[str, Any], key: str) -> None:
    with pytest.raises(MillraceError) as refused:
        admission({"options": {}, **section})
    assert refused.value.key == key
    assert refused.value.allowed and refused.value.remedy


def test_options_when_a_method_is_named_then_its_knobs_are_allowed_and_it_looks_as_far_as_they_say() -> None:
    assert set(METHODS) == {"horizon", *STRATEGIES}
    assert parse(told(options={"ahead": 7, "margin": 1.0})).ahead == 7
    assert parse(told(options={"method": "ard", "ahead": 3, "accepts": 0.5})).ahead == 3
    assert parse(told(options={"method": "ard"})).ahead == 2


def test_options_when_the_method_is_the_papers_then_learns_nothing_unless_told() -> None:
    assert parse(told()).outlook.learns
    assert not parse(told(options={"method": "drfm"})).outlook.learns
    assert parse(told(options={"method": "drfm", "learns": True})).outlook.learns


def test_options_when_a_season_is_told_then_forecasts_are_those_of_a_season_ago() -> None:
    assert parse(told(options={"season": 24})).forecaster == Seasonal(24)
    assert parse(told(options={"alpha": 0.5})).forecaster == Holt(alpha=0.5)


def test_options_when_workers_are_sized_then_nodes_are_filled_no_further_than_headroom_and_latency_let() -> None:
    assert parse(told()).usable == 10.0
    assert parse(told(sizing={"query_s": 1.0, "headroom": 0.25})).usable == pytest.approx(7.5)
    slow = {"query_s": 1.0, "headroom": 0.25, "latency_s": 4.0, "through_s": [1.0, 0.5, 0.5]}
    assert parse(told(sizing=slow)).usable == pytest.approx(5.0)

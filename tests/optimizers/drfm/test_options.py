from __future__ import annotations

import math
from typing import Any, get_args

import pytest

from millrace.model.errors import MillraceError
from millrace.optimizers.drfm.forecasters import Holt, Seasonal
from millrace.optimizers.drfm.options import AdmissionPolicy, Method
from millrace.optimizers.drfm.paper.strategies import STRATEGIES
from millrace.optimizers.registry import Role, create


def section_of(**section: Any) -> dict[str, Any]:
    return {"capacity": 10.0, **section}


def policy(**section: Any) -> AdmissionPolicy:
    return AdmissionPolicy.read(section_of(**section))


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ({}, "admission.capacity"),
        ({"capacity": math.nan}, "admission.capacity"),
        ({"capacity": "4"}, "admission.capacity"),
        (section_of(options={"method": "best"}), "admission.options.method"),
        (section_of(options={"quiet": 0}), "admission.options.quiet"),
        (section_of(options={"margn": 1}), "admission.options.margn"),
        (section_of(options={"margin": -1}), "admission.options.margin"),
        (section_of(options={"method": "drf", "margin": 1}), "admission.options.margin"),
        (section_of(options={"accepts": 0.5}), "admission.options.accepts"),
        (section_of(options={"history": 0}), "admission.options.history"),
        (section_of(options={"learning": {}}), "admission.options.learning"),
        (section_of(options={"season": 0}), "admission.options.season"),
        (section_of(options={"season": 24, "alpha": 0.5}), "admission.options.alpha"),
        (section_of(streams={"a/b": {"minimun": 1.0}}), "admission.streams.a/b.minimun"),
        (section_of(streams={"a/b": {"minimum": 2.0, "maximum": 1.0}}), "admission.streams.a/b.maximum"),
        (section_of(streams={"a/b": {"transition": "leap"}}), "admission.streams.a/b.transition"),
        (section_of(streams={"a/b": {"maximum": 10.5}}), "admission.streams.a/b.maximum"),
        (section_of(streams={"a/b": {"maximum": 9.0}}, sizing={"query_s": 1.0}), "admission.streams.a/b.maximum"),
        (section_of(sizing={"query_s": 0.0}), "admission.sizing.query_s"),
        (section_of(sizing={"query_s": 1.0, "headroom": 1.0}), "admission.sizing.headroom"),
        (
            section_of(sizing={"query_s": 1.0, "latency_s": 2.0, "through_s": [1.0, 1.0, 1.0]}),
            "admission.sizing.latency_s",
        ),
        (section_of(sizing={"query_s": 1.0, "colour": 1.0}), "admission.sizing.colour"),
    ],
)
def test_options_when_wrong_then_are_refused_by_name(section: dict[str, Any], key: str) -> None:
    with pytest.raises(MillraceError) as refused:
        create("drfm", {"options": {}, **section}, Role.ADMISSION)
    assert refused.value.key == key
    assert refused.value.allowed and refused.value.remedy


def test_options_when_a_method_is_named_then_its_knobs_are_allowed() -> None:
    assert set(get_args(Method)) == {"horizon", *STRATEGIES}
    assert policy(options={"ahead": 7, "margin": 1.0}).options.ahead == 7
    assert policy(options={"method": "ard", "ahead": 3, "accepts": 0.5}).options.ahead == 3
    assert policy(options={"method": "ard"}).options.ahead == 2


def test_options_of_a_papers_method_learn_nothing_unless_switched_on() -> None:
    assert policy().options.learns
    assert not policy(options={"method": "drfm"}).options.learns
    assert policy(options={"method": "drfm", "learns": True}).options.learns


def test_options_when_a_season_is_given_then_forecasts_are_seasonal() -> None:
    assert policy(options={"season": 24}).options.forecaster == Seasonal(season=24)
    assert policy(options={"alpha": 0.5}).options.forecaster == Holt(alpha=0.5)


def test_options_when_workers_are_sized_then_limit_how_full_nodes_get() -> None:
    assert policy().usable == 10.0
    assert policy(sizing={"query_s": 1.0, "headroom": 0.25}).usable == pytest.approx(7.5)
    slow = {"query_s": 1.0, "headroom": 0.25, "latency_s": 4.0, "through_s": [1.0, 0.5, 0.5]}
    assert policy(sizing=slow).usable == pytest.approx(5.0)

"""Steps down that pay: they save more until the next rise than a change down and back costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.decision import Proposal
from millrace.model.objective import Bounds
from millrace.optimizers.conformance.builders import NOON, app_signals, deployment, observed, signals, target
from millrace.optimizers.conttune.arrival import RateHistory, Run
from millrace.optimizers.conttune.course import Course, Span
from millrace.optimizers.conttune.payback import PayBack, Prospect
from millrace.optimizers.registry import create
from tests.optimizers.conttune.flow_cases import POWER, measured

PERIOD_S = 10.0
HIGH, LOW = 0.75 * POWER[8], 0.5 * POWER[4]
CHANGE_S = 15.0
PAY_BACK_S = CHANGE_S * (8 + 3) / (8 - 3)
"""From 8 to 3 slots, which are enough for LOW, and back."""


def driven(rates: Sequence[float], **changes: Any) -> list[Proposal]:
    """flow's answers for an app that is measured at each level, and gets the requested slots at once."""
    tuner, slots, memory = create("flow", {}), 8, {}  # type: ignore[var-annotated]
    found = []
    for number, rate in enumerate(rates):
        values = {"change_s": CHANGE_S, "arrival_recent_rows_per_s": rate}
        app = app_signals(slots, rate, measured(slots), **{**values, **changes})
        seen = signals(app, observed(POWER), Bounds(1, 8), until=NOON + timedelta(seconds=PERIOD_S * number))
        proposal, memory = tuner.propose(seen, deployment(slots), memory)
        slots = target(proposal, slots)
        found.append(proposal)
    return found


def slots_of(proposals: Sequence[Proposal]) -> list[int]:
    slots, found = 8, []
    for proposal in proposals:
        slots = target(proposal, slots)
        found.append(slots)
    return found


def test_dip_of_a_minute_is_no_reason_to_scale_down() -> None:
    """The demo: 8 slots, a dip of 64 s between two humps of the day; its rise from the night took a while."""
    rates = [2.0, HIGH / 2, *[HIGH] * 6, *[LOW] * 6, *[HIGH] * 6]
    found = driven(rates)
    assert set(slots_of(found[3:])) == {8}
    dip = found[9]
    assert dip.reason_code == "does_not_pay"
    assert "3 slots would be enough, but would save only about 50 slot-seconds" in dip.sentence
    assert "scaling down and up again costs 165" in dip.sentence


def test_step_down_says_its_savings_and_cost() -> None:
    first = driven([LOW])[0]
    assert first.reason_code == "over_provisioned"
    assert first.sentence.endswith(
        "Scaling down and up again costs 165 slot-seconds, which it saves in 33 s. No rise is expected."
    )
    down = next(p for p in driven([HIGH] * 3 + [LOW] * 20) if p.changes)
    assert (
        "This saves about 175 slot-seconds until the next rise; scaling down and up again costs 165." in down.sentence
    )


@pytest.mark.parametrize(("restarts", "cost"), [(True, 110), (False, 55)])
def test_until_changes_were_measured_a_restart_counts_twice_as_much_as_other_executors(
    restarts: bool, cost: int
) -> None:
    first = driven([LOW], change_s=None, restarts=restarts)[0]
    assert f"Scaling down and up again costs {cost} slot-seconds" in first.sentence


@given(st.integers(2, 40), st.floats(0.0, 0.9))
@settings(max_examples=25, deadline=None)
def test_load_that_falls_permanently_is_followed_in_twice_the_pay_back_time(high: int, share: float) -> None:
    rates = [HIGH] * high + [share * LOW] * 12
    slots = slots_of(driven(rates))
    least = slots_of(driven([share * LOW]))[0]
    wait = math.ceil(2 * CHANGE_S * (8 + least) / (8 - least) / PERIOD_S) + 1
    assert slots[high + wait - 1] <= least + 1, (slots, least, wait)
    assert slots[high] == 8, "not at once"


@given(st.integers(1, 3), st.integers(5, 12))
@settings(max_examples=20, deadline=None)
def test_dips_shorter_than_the_pay_back_time_never_cause_a_step_down(dip: int, high: int) -> None:
    assert dip * PERIOD_S < PAY_BACK_S
    rates = ([HIGH] * high + [LOW] * dip) * 6 + [HIGH]
    assert set(slots_of(driven(rates))) == {8}


@given(st.integers(20, 40), st.integers(4, 12))
@settings(max_examples=15, deadline=None)
def test_long_repeated_dips_cause_a_step_down_at_once(dip: int, high: int) -> None:
    rates = ([HIGH] * high + [LOW] * dip) * 5
    slots = slots_of(driven(rates))
    begin = 4 * (high + dip) + high
    assert slots[begin] < 8 and slots[begin - 1] == 8


def test_step_that_costs_nothing_is_made_at_once() -> None:
    slots = slots_of(driven([HIGH] * 5 + [LOW], change_s=0.0))
    assert slots[-2] == 8 and slots[-1] < 8


def test_repetition_distinguishes_a_short_dip_from_a_night() -> None:
    day = [Run(100.0, 6), Run(30.0, 2), Run(90.0, 6), Run(20.0, 30)]
    spans = [Span(run.rate, run.evaluations * PERIOD_S) for run in day]
    in_dip = Prospect(
        Course((*spans * 2, spans[0], Span(30.0, 10.0))), RateHistory((*day * 2, day[0], Run(30.0, 1))), PERIOD_S, 15.0
    )
    in_night = Prospect(
        Course((*spans * 2, *spans[:3], Span(20.0, 10.0))),
        RateHistory((*day * 2, *day[:3], Run(20.0, 1))), PERIOD_S, 15.0,
    )  # fmt: skip
    assert in_dip.until_rise(50.0).seconds == 10.0
    assert in_night.until_rise(50.0).seconds == 290.0
    assert in_night.until_rise(200.0).seconds == math.inf


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0.1, 1e4)), max_size=20), st.floats(0, 1e6))
def test_expected_stay_is_never_negative_and_known_only_after_a_fall(pairs: list[Any], rate: float) -> None:
    course = Course(tuple(Span(*pair) for pair in pairs))
    expected = course.expected(rate)
    assert expected.seconds >= 0 and expected.error >= 0
    assert (expected.seconds == math.inf) == all(span.rate <= rate for span in course.spans)
    assert sum(s.seconds for stay in course.stays(rate) for s in stay) == pytest.approx(
        sum(s.seconds for s in course.spans if s.rate <= rate)
    )


def test_periods_that_overlap_count_once_and_gaps_not_at_all() -> None:
    def at(seconds: float) -> Any:
        return NOON + timedelta(seconds=seconds)

    course = Course().with_period(10.0, at(0), at(20)).with_period(10.0, at(10), at(30))
    assert course.spans == (Span(10.0, 30.0),)
    assert course.with_period(50.0, at(500), at(520)).spans[-1] == Span(50.0, 20.0)
    assert course.with_period(50.0, at(-60), at(-40)).spans == course.spans, "the clock was set back"


def test_pay_back_counts_the_error_of_the_forecast() -> None:
    prospect = Prospect(Course((Span(9.0, 60.0), Span(1.0, 40.0))), RateHistory(), 10.0, 10.0)
    pays = prospect.pay_back(8, 4, 5.0)
    assert (pays.saved, pays.cost, pays.pays) == (4 * 40.0 / 2, 120.0, False)
    assert isinstance(pays, PayBack)

"""Repeating bursts are sized for the latency goal or left alone; nothing changes between bursts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.model.decision import Proposal
from millrace.model.objective import Bounds, Objective
from millrace.optimizers.conformance.builders import NOON, app_signals, capacity, deployment, observed, signals, target
from millrace.optimizers.conttune.bursts import find_bursts
from millrace.optimizers.conttune.course import Course, Span
from millrace.optimizers.conttune.demand import Demand
from millrace.optimizers.registry import create

PERIOD_S, ROWS = 25.0, 3000.0
EVERY = 6
"""A burst in every sixth evaluation: every 150 s."""
CYCLE = [ROWS / PERIOD_S, *[0.0] * (EVERY - 1)]


def driven(
    rates: Sequence[float], per_slot: float, max_lag_s: float = 30.0, *, to_the_end: bool = False
) -> list[tuple[int, Proposal]]:
    """The slots that an app gets, starting from one, and flow's answers; a batch takes 1 s plus its rows' time."""
    tuner, slots, memory, waiting = create("flow", {}), 1, {}, 0.0  # type: ignore[var-annotated]
    abilities = {p: per_slot * p**0.9 for p in range(1, 5)}
    found = []
    for number, rate in enumerate(rates):
        waiting += rate * PERIOD_S
        done = min(waiting, abilities[slots] * PERIOD_S / (2 if rate else 1))
        waiting -= done
        fitted = capacity(slots, abilities[slots], 1.0)
        seen = signals(
            app_signals(
                slots, rate, fitted, arrival_recent_rows_per_s=rate if to_the_end else 0.0, backlog_rows=round(waiting)
            ),
            observed(abilities),
            Bounds(1, 4),
            Objective(max_lag_s=max_lag_s),
            until=NOON + timedelta(seconds=PERIOD_S * number),
        )
        seen = type(seen)(**{**vars(seen), "since": seen.until - timedelta(seconds=PERIOD_S)})
        proposal, memory = tuner.propose(seen, deployment(slots), memory)
        slots = target(proposal, slots)
        found.append((slots, proposal))
    return found


def test_bursts_processed_in_time_by_one_slot_are_left_alone() -> None:
    late = driven(CYCLE * 6, per_slot=250.0)[3 * EVERY :]
    assert {slots for slots, _ in late} == {1}
    for _, proposal in late:
        assert "3,000 rows arrive at once about every 150 s (20 rows/s on average)" in proposal.sentence
        assert proposal.sentence.endswith("No change for the bursts: 1 slot can process one in 13 s (goal: 30 s).")


def test_bursts_that_take_too_long_are_sized_for_once() -> None:
    found = driven(CYCLE * 8, per_slot=60.0)
    late = [slots for slots, _ in found[3 * EVERY :]]
    assert len(set(late)) == 1, "no step up for a burst, and none down after it"
    assert ROWS / (60.0 * late[0] ** 0.9) + 1 <= 30.0


def test_bursts_that_last_to_the_end_of_a_period_are_not_followed() -> None:
    """Before, each of them was a step up, and each pause a step down."""
    found = driven(CYCLE * 8, per_slot=60.0, to_the_end=True)
    assert sum(bool(p.changes) for _, p in found) <= 4
    assert len({slots for slots, _ in found[2 * EVERY :]}) == 1


def test_step_for_bursts_says_so() -> None:
    proposals = [p for _, p in driven(CYCLE * 5, per_slot=60.0, max_lag_s=120.0)]
    assert all(not p.changes for p in proposals[3 * EVERY :])
    spans = [Span(ROWS / PERIOD_S, PERIOD_S), Span(0.0, 125.0)]
    assert find_bursts(Course(tuple(spans * 3)), 60.0) is not None
    tight = [p for _, p in driven(CYCLE * 5, per_slot=60.0) if p.reason_code == "bursts" or "Sized for" in p.sentence]
    assert tight and "(goal: 30 s)." in tight[0].sentence


def test_rates_name_the_span_of_their_mean() -> None:
    _, first = driven([40.0], per_slot=250.0)[0]
    assert "0 rows/s arrived in the last 8 s" in first.sentence, "the newest third"
    app = app_signals(1, 40.0, capacity(1, 250.0))
    assert (
        "40 rows/s arrived in the last 10 s" in create("flow", {}).propose(signals(app), deployment(1), {})[0].sentence
    )


# ---- detection of bursts


@given(st.integers(0, 2**20))
@example(709)  # the highest rate is more than three times the lowest
def test_bursts_at_regular_intervals_are_found(seed: int) -> None:
    rng = random.Random(seed)
    spans = [Span(2.0, 1000.0)]
    for _ in range(5):
        seconds = rng.uniform(8, 20)
        spans += [Span(rng.uniform(2500, 3500) / seconds, seconds), Span(2.0, rng.uniform(120, 160))]
    found = find_bursts(Course(tuple(spans)), 40.0)
    assert found is not None
    assert 2500 <= found.rows <= 3500 and 120 <= found.every_s <= 180
    assert found.rate == pytest.approx(3000 / 150 + 2, rel=0.3)


@pytest.mark.parametrize(
    "spans",
    [
        [],
        [(0.0, 600.0)],
        [(100.0, 600.0)],
        [(0.0, 130.0), (150.0, 20.0), (0.0, 130.0)],
        [(0.0, 130.0), (150.0, 20.0)] * 4 + [(0.0, 600.0)],
        [(0.0, 130.0), (150.0, 20.0)] * 4 + [(150.0, 60.0)],
        [(0.0, 130.0), (150.0, 20.0)] * 4 + [(0.0, 130.0), (900.0, 20.0)],
        [(0.0, 600.0), (150.0, 600.0)] * 4,
        [(60.0, 20.0), (150.0, 20.0)] * 8,
        [(0.0, 20.0), (150.0, 20.0)] * 8,
        [(0.0, 30.0), (150.0, 20.0), (0.0, 400.0), (150.0, 20.0), (0.0, 40.0), (150.0, 20.0), (0.0, 40.0)],
    ],
    ids=[
        "nothing", "silence", "steady", "one", "they ended", "lasts", "far larger", "long",
        "a rate that fluctuates", "half of the time", "irregular",
    ],
)  # fmt: skip
def test_other_courses_are_no_bursts(spans: list[tuple[float, float]]) -> None:
    assert find_bursts(Course(tuple(Span(*span) for span in spans)), 50.0) is None


@given(st.floats(1, 1e5), st.floats(0.1, 5), st.floats(10, 100), st.one_of(st.none(), st.integers(100, 10_000)))
def test_ability_required_for_a_burst_processes_it_in_time(
    rows: float, fixed_s: float, goal: float, limit: int | None
) -> None:
    demand = Demand(0.0, 0.0, 0.0, Objective(max_lag_s=goal), {1: fixed_s}, batch_rows=limit, burst_rows=rows)
    required = demand.required_at(1)
    if required > 0:  # a batch may have started just before
        assert demand.burst_s(required, 1) == pytest.approx(goal - fixed_s, rel=1e-6)

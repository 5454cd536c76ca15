import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.model.errors import MillraceError
from optimizers.drfm.sizing import Costs, Workers, fill, split_capacity, workers

COSTS = Costs(query_s=1e-3, merge_s=2e-3, partials=100.0)


def test_workers_when_worked_out_by_hand_then_are_those_of_equations_1a_and_1b():
    # 10,000 x 0.001 / 0.8 = 12.5; 13 x 100 x 0.002 / 0.8 = 3.25
    assert workers(10_000, 5, COSTS, 0.2, math.inf) == Workers(split=5, query=13, merge=4)


def test_workers_when_nothing_comes_then_one_of_each_stays():
    assert workers(0.0, 0, COSTS, 0.2, 5.0) == Workers(1, 1, 1)


@settings(deadline=None)
@given(
    rate=st.floats(0, 1e6),
    headroom=st.floats(0.01, 0.9),
    through=st.tuples(*[st.floats(0.01, 1.5)] * 3),
)
def test_workers_when_there_are_as_many_then_no_stage_is_too_busy_and_the_bound_holds(rate, headroom, through):
    costs = Costs(1e-3, 2e-3, 100.0, through)
    found = workers(rate, 1, costs, headroom, 5.0)
    busy = (rate * costs.query_s / found.query, found.query * costs.partials * costs.merge_s / found.merge)
    split = split_capacity(1.0, costs, headroom, 5.0)

    assert max(busy) <= 1 - headroom + 1e-6
    delay = sum(o / (1 - u) for o, u in zip(through, (split, *busy), strict=True))
    assert delay <= 5.0 * (1 + 1e-6)


def test_workers_when_the_bound_gets_tighter_then_are_more():
    costs = Costs(1e-3, 2e-3, 100.0, (0.5, 0.5, 0.5))

    assert fill(costs, 0.1, 2.0) == pytest.approx(0.25)
    assert workers(1e4, 1, costs, 0.1, 2.0).query > workers(1e4, 1, costs, 0.1, 20.0).query


def test_workers_when_idle_ones_are_too_slow_already_then_the_bound_is_refused():
    with pytest.raises(MillraceError, match="latency_s"):
        workers(1.0, 1, Costs(1e-3, 0.0, 0.0, (1.0, 1.0, 1.0)), 0.1, 3.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Costs(0.0, 1.0, 1.0),
        lambda: Costs(1.0, -1.0, 1.0),
        lambda: Costs(1.0, 1.0, float("nan")),
        lambda: Costs(1.0, 1.0, 1.0, (0.0, -1.0, 0.0)),
        lambda: workers(float("nan"), 1, COSTS, 0.1, 5.0),
        lambda: workers(1.0, 1, COSTS, 1.0, 5.0),
        lambda: workers(1.0, 1, COSTS, 0.1, 0.0),
        lambda: split_capacity(0.0, COSTS, 0.1, 5.0),
    ],
)
def test_sizing_when_a_value_is_out_of_range_then_is_refused(make):
    with pytest.raises(MillraceError, match=r"admission\.sizing"):
        make()

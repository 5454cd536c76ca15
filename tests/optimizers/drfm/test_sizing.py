from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.errors import MillraceError
from millrace.optimizers.drfm.sizing import WorkerCosts, WorkerCounts

MEASURED = {"query_s": 1e-3, "merge_s": 2e-3, "partials": 100.0}


def sizing_of(**changes: Any) -> WorkerCosts:
    return WorkerCosts(**{**MEASURED, **changes})


def test_workers_match_equations_1a_and_1b():
    # 10,000 x 0.001 / 0.8 = 12.5; 13 x 100 x 0.002 / 0.8 = 3.25
    assert sizing_of().workers(10_000) == WorkerCounts(query=13, merge=4)


def test_workers_when_nothing_arrives_then_keep_one_of_each():
    assert sizing_of(latency_s=5.0).workers(0.0) == WorkerCounts(1, 1)


@settings(deadline=None)
@given(
    rate=st.floats(0, 1e6),
    headroom=st.floats(0.01, 0.9),
    through=st.tuples(*[st.floats(0.01, 1.5)] * 3),
)
def test_workers_keep_every_stage_below_its_fill_and_the_latency_bound(rate, headroom, through):
    sizing = sizing_of(through_s=through, headroom=headroom, latency_s=5.0)
    workers = sizing.workers(rate)
    busy = (rate * sizing.query_s / workers.query, workers.query * sizing.partials * sizing.merge_s / workers.merge)

    assert max(busy) <= 1 - headroom + 1e-6
    delay = sum(o / (1 - u) for o, u in zip(through, (sizing.busy_ratio, *busy), strict=True))
    assert delay <= 5.0 * (1 + 1e-6)


def test_workers_when_the_bound_gets_tighter_then_are_more():
    tight, loose = (sizing_of(through_s=(0.5, 0.5, 0.5), headroom=0.1, latency_s=bound) for bound in (2.0, 20.0))

    assert tight.busy_ratio == pytest.approx(0.25)
    assert tight.workers(1e4).query > loose.workers(1e4).query


@pytest.mark.parametrize(
    "changes",
    [
        {"query_s": 0.0},
        {"merge_s": -1.0},
        {"partials": float("nan")},
        {"through_s": (0.0, -1.0, 0.0)},
        {"headroom": 1.0},
        {"latency_s": 0.0},
        {"through_s": (1.0, 1.0, 1.0), "latency_s": 3.0},
    ],
)
def test_sizing_when_a_value_is_out_of_range_then_is_refused(changes):
    with pytest.raises(MillraceError, match=rf"admission\.sizing\.({'|'.join(changes)})"):
        sizing_of(**changes)


def test_workers_when_the_rate_is_not_a_number_then_are_refused():
    with pytest.raises(MillraceError, match=r"admission\.sizing\.rate"):
        sizing_of().workers(float("nan"))

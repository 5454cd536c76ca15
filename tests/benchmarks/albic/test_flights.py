from __future__ import annotations

import numpy as np
import pytest

from benchmarks.albic.flight_groups import GROUPS
from benchmarks.albic.flights import JOBS, NODES, PERIODS, operators, traffic
from benchmarks.albic.shapes import MEAN
from benchmarks.simulation.placement import PeriodTraffic

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=sorted(JOBS))
def job(request: pytest.FixtureRequest) -> tuple[int, list[PeriodTraffic]]:
    return request.param, list(traffic(request.param))


def test_traffic_when_made_then_every_period_has_all_groups_and_their_savings(
    job: tuple[int, list[PeriodTraffic]],
) -> None:
    number, periods = job
    size = len(operators(number)) * GROUPS
    assert len(periods) == PERIODS
    for period in periods[::30]:
        assert period.load.shape == (size,)
        saved = np.bincount(period.consumer, period.saved, size)
        assert (saved <= period.load + 1e-9).all()
        assert (period.rate > 0).all()
        pairs = period.producer * size + period.consumer
        assert len(np.unique(pairs)) == len(pairs)


def test_traffic_when_made_then_nodes_are_half_full_before_anything_is_collocated(
    job: tuple[int, list[PeriodTraffic]],
) -> None:
    assert np.mean([p.load.sum() for p in job[1]]) == pytest.approx(MEAN * NODES)


def test_job_2_when_made_then_it_is_one_to_one() -> None:
    period = traffic(2)[0]
    assert (period.consumer - period.producer == GROUPS).all()
    assert 95 <= len(period.producer) <= GROUPS


def test_job_3_when_made_then_half_of_the_rows_can_stay() -> None:
    period = traffic(3)[0]
    alone = period.consumer - period.producer == GROUPS
    assert period.rate[alone].sum() == pytest.approx(period.rate.sum() / 2)


def test_job_1_when_made_then_every_group_passes_rows_to_nearly_every_other() -> None:
    period = traffic(1)[0]
    assert len(period.producer) > 0.85 * 2 * GROUPS**2  # some groups of routes are empty: there are only 224 routes

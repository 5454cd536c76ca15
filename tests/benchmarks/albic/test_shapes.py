from __future__ import annotations

import numpy as np
import pytest

from benchmarks.albic.shapes import CHANGE, MEAN, chained, made_up, paired
from benchmarks.simulation.placement import collocation, loads


def test_paired_when_all_is_one_to_one_then_each_group_has_one_partner() -> None:
    job = paired(2, 100, 1.0)
    assert len(job.producer) == 100
    assert len(np.unique(job.producer)) == len(np.unique(job.consumer)) == 100


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5])
def test_paired_when_some_are_one_to_one_then_the_others_feed_all_the_rest(share: float) -> None:
    job = paired(4, 20, share)
    out = np.bincount(job.producer, job.share, 80)
    assert out[out > 0] == pytest.approx(1.0)
    assert (job.share == 1.0).sum() == round(share * 40)
    reached = np.bincount(job.producer, minlength=80)
    assert set(reached[reached > 1]) == {40 - round(share * 40)}, "one operator alone would fit on a node or two"
    assert np.bincount(job.consumer, job.share, 80)[20:40] == pytest.approx(1.0)


def test_made_up_when_it_starts_then_nodes_have_equally_many_groups_and_the_papers_mean_load() -> None:
    plant = made_up(paired(2, 100, 1.0), 20, 0, apart=True)
    found = loads(plant.traffic, plant.node, plant.cluster.capacity)
    assert found.mean() == pytest.approx(MEAN, rel=0.02)
    assert np.ptp(np.bincount(plant.node)) == 0  # consumers weigh more: only they pay for rows that cross
    assert collocation(plant.traffic, plant.node) == 0.0


def test_made_up_when_all_pairs_meet_then_half_of_the_load_is_saved() -> None:
    plant = made_up(paired(2, 100, 1.0), 20, 0)
    node = np.tile(np.arange(100) % 20, 2)
    found = loads(plant.traffic, node, plant.cluster.capacity)
    assert found.mean() == pytest.approx(MEAN / 2, rel=0.02)


def test_wandering_when_repeated_then_is_the_same_and_wanders_a_little() -> None:
    first, again = (made_up(chained(5, 8), 4, 3) for _ in range(2))
    for plant in (first, again):
        plant.apply(plant.node)
    np.testing.assert_array_equal(first.traffic.load, again.traffic.load)
    before = made_up(chained(5, 8), 4, 3).traffic.load
    assert 0 < np.abs(first.traffic.load / before - 1).max() <= CHANGE + 1e-9


def test_chained_when_made_then_every_group_except_the_last_feeds_the_next() -> None:
    job = chained(3, 4)
    assert job.producer.tolist() == list(range(8))
    assert (job.consumer - job.producer == 4).all()

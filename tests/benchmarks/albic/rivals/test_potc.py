import numpy as np
import pytest

from benchmarks.albic.rivals.potc import route
from millrace.model.errors import MillraceError
from tests.optimizers.albic.instances import problem, uneven


def test_routing_when_merging_is_free_then_spreads_better_than_staying():
    posed = uneven(10, 20, 0, 0)

    routing = route(posed, merge_ratio=0.0)

    assert routing.distance < posed.distance(posed.node) / 4
    assert routing.loads.sum() == pytest.approx(posed.load.sum())


def test_routing_when_merging_costs_then_adds_load():
    posed = uneven(10, 20, 0, 0)

    routing = route(posed, merge_ratio=0.2)

    assert routing.loads.sum() > posed.load.sum() * 1.05
    assert np.ptp(routing.merging) > 0
    assert routing.distance > route(posed, merge_ratio=0.0).distance


def test_choices_when_nodes_are_removed_then_are_two_different_kept_ones():
    routing = route(uneven(6, 5, 0, 1, removed=[4, 5]))

    assert (routing.choices < 4).all()
    assert (routing.choices[:, 0] != routing.choices[:, 1]).all()


def test_routing_when_the_seed_is_the_same_then_is_the_same():
    posed = uneven(6, 5, 0, 1)

    assert (route(posed, seed=3).loads == route(posed, seed=3).loads).all()
    assert (route(posed, seed=3).loads != route(posed, seed=4).loads).any()


def test_routing_when_one_node_is_kept_then_sends_everything_there():
    routing = route(problem([5.0, 5.0], [0, 1], 2, 0, removed=[1]))

    assert routing.loads.tolist() == [10.0, 0.0]
    assert routing.distance == 0


def test_merge_ratio_when_negative_then_is_refused():
    with pytest.raises(MillraceError, match="merge_ratio"):
        route(uneven(3, 3, 0, 0), merge_ratio=-0.1)


def test_share_when_groups_have_load_then_is_between_none_and_all():
    routing = route(uneven(6, 5, 0, 1))

    assert ((routing.share >= 0) & (routing.share <= 1)).all()
    assert np.isfinite(routing.merging).all()

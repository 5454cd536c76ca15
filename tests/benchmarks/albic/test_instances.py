import numpy as np
import pytest

from benchmarks.albic.instances import BIG, MEAN, MIDDLE, SMALL, instance


@pytest.mark.parametrize("size", [SMALL, MIDDLE, BIG])
@pytest.mark.parametrize("varies", [20, 60])
def test_instance_when_drawn_then_a_fifth_of_the_nodes_differs_by_half_of_varies(size, varies):
    posed = instance(size, varies, 10, 0)
    off = posed.loads(posed.node) - MEAN

    assert (np.abs(off) > 0.4 * varies).sum() == size.nodes // 5
    assert off.max() == pytest.approx(varies / 2, abs=2)
    assert off.min() == pytest.approx(-varies / 2, abs=2)
    assert (np.bincount(posed.node) == size.groups // size.nodes).all()


def test_instance_when_the_seed_is_the_same_then_it_is_the_same():
    assert (instance(SMALL, 40, 10, 3).load == instance(SMALL, 40, 20, 3).load).all()
    assert (instance(SMALL, 40, 10, 3).load != instance(SMALL, 40, 10, 4).load).any()

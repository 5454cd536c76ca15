import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulation.join import JoinCluster, JoinPlant, spread
from millrace.model.errors import MillraceError
from millrace.model.join import JoinSettings

SMALL = JoinCluster(capacity=100, window_s=4, period_s=2, delay_s=3, pair_s=0.0, tuple_s=0.1, block_s=0.0)


def plant(arrivals, settings=None, cluster=SMALL):
    return JoinPlant(np.array(arrivals), settings or JoinSettings(workers=2, block=1), cluster)


def test_window_when_periods_pass_then_holds_only_the_tuples_of_its_seconds():
    there = plant([[1, 1], [2, 2], [3, 3], [4, 4], [5, 5], [6, 6]])

    seen = [there.advance() for _ in range(3)]

    assert [s.offered for s in seen] == [6, 20, 36]
    assert [s.offered_before for s in seen] == [None, 6, 20]
    assert [sum(s.window_tuples) for s in seen] == [6, 20, 36]
    assert there.over


def test_arrivals_when_counted_then_are_those_of_the_period_per_stream():
    there = plant([[1, 5], [2, 6]])

    assert there.advance().arrived == {"left": 3, "right": 11}


@given(st.floats(0, 1), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=4, max_size=30))
def test_shedding_when_a_ratio_is_in_force_then_drops_that_share_exactly_over_time(shed, arrivals):
    there = plant(arrivals, JoinSettings(1, 1, shed))
    dropped, arrived = np.zeros(2), np.zeros(2)
    while not there.over:
        seen = there.advance()
        dropped += list(seen.dropped.values())
        arrived += list(seen.arrived.values())
        assert (np.abs(dropped - shed * arrived) < 1 + 1e-6).all()

    assert there.score().shed_ratio == pytest.approx(dropped.sum() / arrived.sum() if arrived.sum() else 0)


def test_shedding_when_it_drops_tuples_then_the_offered_count_still_includes_them():
    there = plant([[5, 5]] * 4, JoinSettings(1, 1, 1.0))

    seen = [there.advance(), there.advance()][-1]

    assert (seen.offered, seen.window_tuples, seen.shed) == (40, (0,), 1.0)


def test_workers_when_added_then_start_after_the_delay_and_when_removed_leave_at_once():
    there = plant([[1, 1]] * 20)
    there.advance()
    there.apply(JoinSettings(5, 1))
    assert [there.advance().workers for _ in range(3)] == [2, 5, 5]
    there.apply(JoinSettings(3, 1))
    assert there.advance().workers == 3
    there.apply(JoinSettings(3, 2))
    assert there.score().scale_events == 2
    assert there.score().worker_s == 2 * 5 + 5 * 3 + 3 * 2


def test_work_when_more_than_a_worker_can_do_then_waits():
    there = plant([[4, 4], [4, 4], [8, 8], [0, 0], [0, 0], [0, 0]])
    for _ in range(3):
        there.advance()

    # .8 s of work per second, then 1.6 s, of which .6 s wait: the tuples of the third second wait for .8 s at most
    assert there.score().latency_ms == pytest.approx(1000 * np.quantile([0.4, 0.4, 0.8, 0.6, 0, 0], 0.95))


def test_work_grows_with_the_window_of_a_worker_and_shrinks_with_blocks():
    arrivals = [[20, 20]] * 8

    def latency(m, block):
        cluster = JoinCluster(1000, 4, 2, pair_s=1e-4, tuple_s=0.0, block_s=1e-3)
        there = plant(arrivals, JoinSettings(m, block), cluster)
        while not there.over:
            there.advance()
        return there.score().latency_ms

    assert latency(1, 1) > latency(4, 1) > latency(4, 2)


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 300))
def test_spread_keeps_all_and_the_fullest_has_at_most_one_block_more(tuples, workers, block):
    found = spread(tuples, workers, block)

    assert sum(found) == tuples
    assert len(found) == workers
    assert min(found) >= 0
    assert max(found) - min(found) <= block
    assert found[0] == max(found)


def test_run_when_repeated_then_is_the_same():
    arrivals = np.random.default_rng(1).poisson(20, (40, 2))
    first, second = plant(arrivals), plant(arrivals)
    while not first.over:
        assert first.advance() == second.advance()

    assert first.score() == second.score()


def test_run_when_a_period_is_cut_off_then_ends_before_it():
    there = plant([[1, 1]] * 3)
    there.advance()

    assert there.over
    with pytest.raises(MillraceError, match="second"):
        there.advance()


@pytest.mark.parametrize("arrivals", [[[1, 2, 3]], [[1, -1]], [1, 2]])
def test_plant_when_arrivals_are_wrong_then_says_so(arrivals):
    with pytest.raises(MillraceError, match="arrivals"):
        plant(arrivals)


def test_plant_when_nothing_has_passed_then_has_no_score():
    with pytest.raises(MillraceError, match="periods"):
        plant([[1, 1]]).score()


@pytest.mark.parametrize("wrong", [{"capacity": 1}, {"period_s": 0}, {"delay_s": -1}, {"pair_s": float("nan")}])
def test_cluster_when_out_of_range_then_names_it(wrong):
    with pytest.raises(MillraceError, match=next(iter(wrong))):
        JoinCluster(**wrong)

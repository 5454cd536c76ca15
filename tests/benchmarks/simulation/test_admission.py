import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulation.admission import AdmissionPlant, Outcome, SplitNodes, least_nodes, score
from millrace.model.errors import MillraceError
from tests.examples import examples

NODES = SplitNodes(capacity=10.0, period_s=2.0, handover_s=0.5)
NAN = float("nan")


def plant(*rates):
    rates = np.array(rates, dtype=float)
    return AdmissionPlant([f"s{i}" for i in range(rates.shape[1])], rates, NODES)


def test_evaluation_when_a_run_starts_then_all_streams_are_new_and_unseen():
    observed = plant([4.0, 5.0]).observe()

    assert observed.streams == ("s0", "s1")
    assert np.isnan(observed.rate).all()
    assert observed.node.tolist() == [-1, -1]
    assert observed.nodes == 0


def test_evaluation_when_a_period_has_passed_then_reports_its_rates_not_future_ones():
    there = plant([4.0, 5.0], [7.0, 8.0])
    there.apply(np.array([0, 0]))

    assert there.observe().rate.tolist() == [4.0, 5.0]


def test_evaluation_when_streams_join_and_leave_then_lists_connected_ones():
    there = plant([4.0, 5.0, NAN], [NAN, 5.0, 6.0], [4.0, 5.0, NAN])
    there.apply(np.array([3, 8]))
    observed = there.observe()

    assert observed.streams == ("s1", "s2")
    assert observed.node.tolist() == [1, -1]
    assert observed.rate[0] == 5.0
    assert np.isnan(observed.rate[1])

    there.apply(np.array([1, 1]))
    assert there.observe().node.tolist() == [-1, 0], "one that comes back is new"


def test_apply_when_nodes_get_too_much_then_counts_them_and_queues_the_rest():
    there = plant([8.0, 4.0, 9.0], [3.0, 4.0, 9.0])

    first = there.apply(np.array([0, 0, 1]))
    assert (first.nodes, first.overloaded) == (2, 1)
    assert first.latency_s == pytest.approx(2.0 * (12 - 10) / 10)
    assert there.observe().latency_s.tolist() == pytest.approx([0.2, 0.0])

    second = there.apply(np.array([0, 0, 1]))
    assert second.overloaded == 0
    assert second.latency_s == 0.0


def test_apply_when_a_node_is_overloaded_for_long_then_its_queue_grows():
    there = plant([12.0, 0.0], [13.0, 0.0], [9.0, 0.0])

    delays = [there.apply(np.array([0, 0])).latency_s for _ in range(3)]

    assert delays == pytest.approx([2.0 * 2 / 10, 2.0 * 5 / 10, 2.0 * 4 / 10])


def test_apply_when_streams_are_redirected_then_wait_their_turn_and_for_the_queue():
    there = plant([8.0, 4.0, 2.0, 3.0], [1.0, 2.0, 4.0, 3.0])
    there.apply(np.array([0, 0, 1, 1]))

    found = there.apply(np.array([2, 2, 2, 1]))

    queue_s = 2.0 * (12 - 10) / 10
    assert found.redirections == 3
    assert found.delay_s == pytest.approx(0.5 + queue_s + 1.0 + queue_s + 0.5)
    assert found.buffered == pytest.approx(1.0 * (0.5 + queue_s) + 2.0 * (1.0 + queue_s) + 4.0 * 0.5)


def test_apply_when_a_new_stream_is_assigned_then_counts_no_redirection():
    there = plant([4.0])

    assert there.apply(np.array([0])).redirections == 0


def test_apply_when_no_stream_is_connected_then_needs_no_node():
    there = plant([NAN], [4.0])

    assert there.apply(np.zeros(0, dtype=int)) == Outcome(0, 0.0, 0, 0, 0, 0.0, 0.0)
    assert there.observe().streams == ("s0",)


@pytest.mark.parametrize("node", [[0], [0, -1], [0, 0, 0]])
def test_apply_when_a_stream_has_no_node_then_is_refused(node):
    with pytest.raises(MillraceError, match="assignment"):
        plant([4.0, 5.0]).apply(np.array(node))


@pytest.mark.parametrize("rates", [[[-1.0]], [[np.inf]], [[1.0, 2.0, 3.0]]])
def test_plant_when_the_workload_is_impossible_then_is_refused(rates):
    rates = np.array(rates)
    with pytest.raises(MillraceError, match="rates"):
        AdmissionPlant(["a"], rates, NODES)


@pytest.mark.parametrize("changes", [{"capacity": 0.0}, {"period_s": NAN}, {"handover_s": -1.0}])
def test_nodes_when_a_value_is_out_of_range_then_are_refused(changes):
    with pytest.raises(MillraceError):
        SplitNodes(**changes)


@examples(60)
@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=4))
def test_least_nodes_when_compared_with_all_packings_then_is_never_more_than_the_fewest(rates):
    rates = np.array(rates)
    fewest = min(
        len(set(choice))
        for choice in itertools.product(range(len(rates)), repeat=len(rates))
        if (np.bincount(choice, weights=rates) <= 10 * (1 + 1e-12)).all()
    )

    # streams that send nothing need no node of their own
    assert least_nodes(rates, 10.0) <= fewest
    assert least_nodes(rates, 10.0) >= rates.sum() / 10 - 1e-6


def test_least_nodes_when_no_two_streams_fit_together_then_counts_each():
    assert least_nodes(np.array([6.0, 6.0, 6.0]), 10.0) == 3
    assert least_nodes(np.array([25.0]), 10.0) == 1


def test_score_when_a_run_is_over_then_sums_it_up():
    found = score([Outcome(2, 10.0, 4, 1, 4, 0.0, 3.0), Outcome(1, 0.0, 6, 0, 4, 1.0, 0.0)])

    assert found.redirections_per_period == 1.5
    assert found.redirection_delay_s == 1.0
    assert found.latency_p95_s == pytest.approx(0.95)
    assert found.buffered_tuples == 5.0
    assert found.above_optimum_ratio == pytest.approx(0.25)
    assert found.overloaded_ratio == pytest.approx(0.1)
    assert found.node_periods == 10


def test_score_when_nothing_was_redirected_then_nothing_waited():
    assert score([Outcome(0, 0.0, 4, 0, 4, 0.0, 0.0)]).redirection_delay_s == 0


def test_score_when_no_period_passed_then_is_refused():
    with pytest.raises(MillraceError, match="outcomes"):
        score([])

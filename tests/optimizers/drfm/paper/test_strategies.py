import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.errors import MillraceError
from millrace.optimizers.drfm.paper.best_fit import pack
from millrace.optimizers.drfm.paper.strategies import STRATEGIES, StrategyOptions
from millrace.optimizers.drfm.problem import NEW
from tests.examples import examples
from tests.optimizers.drfm.instances import problem, problems

NO_DRAIN = StrategyOptions(drains=0.0)


def figure_5():
    """A table that fits the description of Figure 5: C = 10, loads 12, 6 and 8, new streams s7, s8, s9.

    N1 holds s1, s2, s3 and N2 s4, s5, and N3 s6; s3 is expected to rise to 3.
    """
    first = [5.0, 4.0, 1.0, 3.0, 3.0, 8.0, 7.0, 4.0, 2.0]
    then = [5.0, 4.0, 3.0, 3.0, 3.0, 8.0, 7.0, 4.0, 2.0]
    return problem([first, then], [0, 0, 0, 1, 1, 2, NEW, NEW, NEW])


def test_drfm_when_run_on_figure_5_then_assigns_as_the_paper_does():
    plan = STRATEGIES["drfm"](NO_DRAIN).plan(figure_5())

    assert plan.redirected(figure_5()).tolist() == [2]
    assert plan.node.tolist() == [0, 0, 3, 1, 1, 2, 3, 1, 2]


def test_strategies_when_a_node_is_overloaded_then_pick_in_their_order():
    posed = problem([[6.0, 2.0, 4.0], [6.0, 2.5, 6.0]], [0, 0, 0], last=[6.0, 2.0, 4.0])

    moved = {name: STRATEGIES[name](NO_DRAIN).plan(posed).redirected(posed).tolist() for name in STRATEGIES}

    assert moved["ari"] == [1]
    assert moved["ard"] == [0]
    assert moved["drf"] == [2]
    assert moved["drfm"] == [2]


def test_par_when_streams_fit_on_fewer_nodes_then_keeps_their_numbers():
    posed = problem([4.0, 5.0, 5.0, 4.0], [0, 1, 1, 2])

    plan = STRATEGIES["par"](StrategyOptions()).plan(posed)

    assert plan.nodes == 2
    assert plan.node[1] == plan.node[2] == 1
    assert plan.node[0] == plan.node[3] != 1


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@examples(50)
@given(posed=problems())
def test_strategy_places_every_stream_and_overloads_no_node_it_fills(name, posed):
    strategy = STRATEGIES[name](StrategyOptions())
    plan = strategy.plan(posed)
    sizes = strategy.sizes(posed, strategy.options)

    assert plan.node.shape == (posed.streams,)
    assert (plan.node >= 0).all()
    load = np.bincount(plan.node, weights=sizes) if posed.streams else np.zeros(0)
    for n in np.flatnonzero(load > posed.capacity * (1 + 1e-6)):
        assert (plan.node == n).sum() == 1


@pytest.mark.parametrize("name", ["ari", "ard", "drf", "drfm"])
def test_strategy_when_nothing_is_wrong_then_moves_nothing(name):
    posed = problem([[5.0, 4.0, 5.0, 4.0]] * 2, [0, 0, 1, 1])

    assert len(STRATEGIES[name](StrategyOptions()).plan(posed).redirected(posed)) == 0


@pytest.mark.parametrize("name", ["ari", "ard", "drf", "drfm"])
def test_strategy_when_a_stream_is_alone_then_leaves_it_however_fast(name):
    posed = problem([25.0, 4.0], [0, 1])

    plan = STRATEGIES[name](NO_DRAIN).plan(posed)

    assert plan.node.tolist() == [0, 1]
    assert plan.oversized.tolist() == [0]


def test_strategy_when_the_delay_exceeds_the_bound_then_adds_nothing():
    posed = problem([[3.0, 3.0, 2.0]] * 2, [0, 1, NEW], latency_s=[9.0, 0.0])

    assert STRATEGIES["drf"](NO_DRAIN).plan(posed).node.tolist() == [0, 1, 1]


def test_drain_when_a_nodes_streams_fit_elsewhere_then_it_is_emptied():
    posed = problem([[5.0, 3.0, 1.0, 1.0]] * 2, [0, 1, 2, 2])

    plan = STRATEGIES["drf"](StrategyOptions()).plan(posed)

    assert plan.nodes == 2
    assert 2 not in plan.node


def test_drain_when_a_node_is_nearly_full_then_is_left():
    posed = problem([[8.5, 8.5]] * 2, [0, 1])

    assert STRATEGIES["drf"](StrategyOptions()).plan(posed).nodes == 2


def test_drain_when_the_other_nodes_delay_too_long_then_fills_none():
    posed = problem([[5.0, 3.0, 1.0]] * 2, [0, 1, 2], latency_s=[9.0, 9.0, 0.0])

    assert STRATEGIES["drf"](StrategyOptions()).plan(posed).node.tolist() == [0, 1, 2]


def test_strategy_when_a_node_is_nearly_full_then_adds_nothing():
    posed = problem([9.5, 0.3], [0, NEW])

    assert STRATEGIES["ard"](StrategyOptions()).plan(posed).nodes == 2
    assert STRATEGIES["ard"](StrategyOptions(accepts=1.0)).plan(posed).nodes == 1


@pytest.mark.parametrize("name", ["par", "ari", "ard"])
def test_strategy_when_a_stream_was_never_seen_then_uses_the_expectation(name):
    posed = problem([6.0, 6.0], [0, NEW], last=[6.0, 0.0])

    assert STRATEGIES[name](StrategyOptions()).plan(posed).nodes == 2


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_strategy_when_there_is_no_stream_then_needs_no_node(name):
    assert STRATEGIES[name](StrategyOptions()).plan(problem(np.zeros((2, 0)), [], nodes=2)).nodes == 0


@examples(80)
@given(
    sizes=st.lists(st.floats(0.01, 12), max_size=40),
    free=st.lists(st.floats(0, 10), max_size=12),
)
def test_pack_when_compared_with_a_plain_best_fit_then_is_the_same(sizes, free):
    bins, found = list(enumerate(free)), {}
    new = len(free)
    for item in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        room = [(gap, b) for b, gap in bins if gap >= sizes[item] - 1e-8]
        gap, b = min(room) if room else (10.0, new)
        new += 0 if room else 1
        bins = [(c, g) for c, g in bins if c != b] + [(b, gap - sizes[item])]
        found[item] = b

    packed = pack(np.array(sizes), np.array(free), np.arange(len(free)), 10.0, len(free))

    assert packed.tolist() == [found[i] for i in range(len(sizes))]


def test_pack_when_bins_exceed_a_block_then_still_finds_the_best():
    free = np.linspace(0.0, 9.0, 3000)
    sizes = np.array([4.5, 1.0])

    packed = pack(sizes, free, np.arange(3000), 10.0, 3000)

    assert packed.tolist() == [int(np.searchsorted(free, s - 1e-9)) for s in sizes]


@pytest.mark.parametrize("changes", [{"ahead": 0}, {"accepts": 0.0}, {"full": 1.5}, {"drains": -0.1}, {"tries": 0}])
def test_options_when_out_of_range_then_are_refused(changes):
    with pytest.raises(MillraceError, match=r"admission\.options"):
        StrategyOptions(**changes)

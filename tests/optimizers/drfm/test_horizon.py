import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.errors import MillraceError
from millrace.optimizers.drfm.horizon import plan
from millrace.optimizers.drfm.insertion import OFFERED, best_node, pair
from millrace.optimizers.drfm.overload_relief import relieve_overloads
from millrace.optimizers.drfm.problem import NEW
from millrace.optimizers.drfm.stream_placement import HorizonOptions, StreamPlacement
from tests.examples import examples
from tests.optimizers.drfm.instances import problem, problems

EXACT = HorizonOptions(margin=0.0, polish=True, move_price=0.0)


def wave(high, low, phase, periods=12, half=3):
    return np.where((np.arange(periods) + phase) // half % 2 == 0, high, low)


def loads(posed, node, row=0):
    return np.bincount(node, weights=posed.mean[row])


@examples(120)
@given(posed=problems())
def test_plan_overloads_no_shared_node_in_the_next_period(posed):
    options = HorizonOptions(margin=1.0)
    found = plan(posed, options)

    assert found.node.shape == (posed.streams,)
    assert (found.node >= 0).all()
    for n in np.unique(found.node):
        on = found.node == n
        need = posed.mean[0, on].sum() + (1 - options.patience) * np.sqrt(posed.variance[0, on].sum())
        assert need <= posed.capacity * (1 + 1e-6) or on.sum() == 1


@examples(60)
@given(posed=problems())
def test_plan_when_made_twice_then_is_the_same(posed):
    assert plan(posed).node.tolist() == plan(posed).node.tolist()


def test_plan_when_nothing_is_wrong_then_moves_nothing():
    posed = problem([[5.0, 4.0, 5.0, 4.0]] * 8, [0, 0, 1, 1])

    assert len(plan(posed).redirected(posed)) == 0


def test_plan_when_an_overload_is_periods_away_then_waits():
    rates = np.full((8, 3), 3.0)
    rates[4:, 0] = 8.0
    posed = problem(rates, [0, 0, 1])

    assert len(plan(posed, HorizonOptions(margin=0.0, move_price=10.0)).redirected(posed)) == 0
    assert len(plan(problem(rates[4:], [0, 0, 1]), HorizonOptions(margin=0.0, move_price=10.0)).redirected(posed)) == 1


def test_plan_when_one_move_relieves_a_node_then_takes_the_one_that_lasts():
    """Moving the first would help for a period and buffer less; moving the second helps permanently."""
    rates = np.array([[5.0, 6.0, 4.0]] + [[8.0, 6.0, 4.0]] * 7)
    posed = problem(rates, [0, 0, 1])

    assert plan(posed, HorizonOptions(margin=0.0, move_price=10.0)).node.tolist() == [0, 1, 1]


def test_plan_when_only_an_exchange_helps_then_opens_no_node():
    posed = problem([[6.0, 5.0, 5.0, 4.0]] * 4, [0, 0, 1, 1])

    found = plan(posed, HorizonOptions(margin=0.0))

    assert found.nodes == 2
    assert sorted(loads(posed, found.node).tolist()) == [10.0, 10.0]


def test_plan_when_new_streams_are_opposites_then_go_together():
    rates = np.column_stack([wave(9, 1, 0), wave(9, 1, 0), wave(1, 9, 0), wave(1, 9, 0)])

    found = plan(problem(rates, [NEW] * 4, nodes=0), HorizonOptions(margin=0.0))

    assert found.nodes == 2
    assert loads(problem(rates, [0] * 4), found.node).tolist() == [10.0, 10.0]


def test_plan_when_old_streams_are_opposites_then_repacks_if_it_pays():
    rates = np.column_stack([wave(9, 1, 0), wave(9, 1, 0), wave(1, 9, 0), wave(1, 9, 0)])
    posed = problem(rates, [0, 1, 2, 3])

    assert plan(posed, HorizonOptions(margin=0.0)).nodes == 2
    assert plan(posed, HorizonOptions(margin=0.0, move_price=100.0)).nodes == 4


def test_plan_when_no_node_can_be_emptied_then_repacks_if_it_pays():
    posed = problem([[5.0, 2.0, 5.0, 2.0, 6.0]] * 8, [0, 0, 1, 1, 2])

    assert plan(posed, HorizonOptions(margin=0.0)).nodes == 2
    assert plan(posed, HorizonOptions(margin=0.0, move_price=100.0)).nodes == 3


def test_plan_when_opposites_are_paired_then_needs_fewer_nodes():
    rng, t = np.random.default_rng(13), np.arange(24)
    high, phase, half = rng.uniform(2, 5, 6), rng.integers(0, 12, 6), rng.integers(2, 5, 6)
    up = np.where((t[:, None] + phase) // half % 2 == 0, high, 0.5)
    posed = problem(np.concatenate([up, high + 0.5 - up], axis=1), [NEW] * 12, nodes=0)

    assert plan(posed, HorizonOptions(margin=0.0)).nodes == 3
    assert plan(posed, HorizonOptions(margin=0.0, pairing=1.0)).nodes == 4
    assert plan(posed, HorizonOptions(margin=0.0, pair_limit=11)).nodes == 4


def test_plan_when_opposites_do_not_fit_on_one_node_then_are_apart():
    rates = np.column_stack([wave(9, 2, 0), wave(2, 9, 0)])

    assert plan(problem(rates, [NEW, NEW], nodes=0), HorizonOptions(margin=0.0)).nodes == 2


@pytest.mark.parametrize(("price", "nodes"), [(0.5, 1), (50.0, 2)])
def test_plan_when_a_node_could_be_emptied_then_weighs_what_it_saves(price, nodes):
    posed = problem([[2.0, 2.0, 2.0]] * 8, [0, 0, 1])

    assert plan(posed, HorizonOptions(move_price=price)).nodes == nodes


@pytest.mark.parametrize("polish", [False, True])
def test_plan_when_nodes_always_run_then_uses_them_and_empties_none(polish):
    options, light = HorizonOptions(polish=polish), [[2.0, 2.0, 2.0]] * 8

    assert plan(problem(light, [0, 1, 2]), options).nodes == 1
    assert plan(problem(light, [0, 1, 2], running=(0, 1, 2)), options).node.tolist() == [0, 1, 2]
    assert plan(problem(light, [0, 1, 2], running=(0, 1)), options).node[:2].tolist() == [0, 1]
    assert plan(problem(light, [2, 2, 2], running=(0,)), options).node.tolist() == [0, 0, 0]


def test_plan_when_a_node_runs_idle_then_new_streams_and_overloads_go_there():
    new = problem([[9.0, 9.0]] * 4, [1, NEW], nodes=4, running=(1, 3))
    full = problem([[6.0, 6.0]] * 4, [0, 0], nodes=4, running=(0, 3))

    assert plan(new).node.tolist() == [1, 3]
    assert sorted(plan(full).node.tolist()) == [0, 3]
    assert plan(problem([25.0, 4.0, 4.0], [0, 0, 0], nodes=4, running=(0, 3))).nodes == 2


def test_plan_when_no_node_can_be_emptied_then_repacks_onto_nodes_that_run():
    posed = problem([[5.0, 2.0, 5.0, 2.0, 6.0]] * 8, [1, 1, 2, 2, 3], nodes=4, running=(0,))

    found = plan(posed, HorizonOptions(margin=0.0))

    assert found.nodes == 2
    assert 0 in found.node


def test_plan_when_rates_are_uncertain_then_keeps_a_margin():
    sure, unsure = (problem([[5.0, 5.0]], [NEW, NEW], nodes=0, variance=v) for v in (0.0, 1.0))

    assert plan(sure).nodes == 1
    assert plan(unsure).nodes == 2


def test_plan_when_the_margin_is_partly_used_up_then_has_patience():
    posed = problem([[4.8, 4.8]], [0, 0], variance=0.0136)

    assert plan(posed, HorizonOptions(margin=3.0, patience=0.25)).nodes == 1
    assert plan(posed, HorizonOptions(margin=3.0, patience=0.0)).nodes == 2


@pytest.mark.parametrize("polish", [False, True])
def test_plan_when_a_node_has_a_queue_then_lets_it_catch_up(polish):
    options = HorizonOptions(margin=0.0, catch_up_s=60.0, polish=polish)
    queue, none = (problem([[5.0, 3.0, 1.5, 4.0]] * 4, [0, 0, 0, 1], latency_s=s) for s in ([6.0, 0.0], [0.5, 0.0]))

    assert plan(none, options).node.tolist() == [0, 0, 0, 1]
    node = plan(queue, options).node
    assert loads(queue, node)[0] + 10.0 * 6 / 60 <= 10.0
    assert plan(queue, options.model_copy(update={"catch_up_s": 600.0})).node.tolist() == [0, 0, 0, 1]


def test_plan_when_a_queue_is_endless_then_keeps_half_a_nodes_load():
    posed = problem([[3.0, 3.0, 2.0]] * 4, [0, 0, 0], latency_s=[1e6])

    found = plan(posed, HorizonOptions(margin=0.0))

    assert loads(posed, found.node)[0] == 5.0


def test_plan_when_a_stream_is_faster_than_a_node_then_isolates_and_names_it():
    posed = problem([25.0, 4.0, 4.0], [0, 0, 0])

    found = plan(posed)

    assert found.oversized.tolist() == [0]
    assert (found.node == found.node[0]).sum() == 1


def test_plan_when_there_is_no_stream_then_needs_no_node():
    assert plan(problem(np.zeros((3, 0)), [], nodes=2)).nodes == 0


def test_pair_when_streams_are_equal_opposites_then_pairs_all_of_them():
    rng = np.random.default_rng(0)
    high, phases = rng.uniform(2, 9, 6), rng.integers(0, 6, 6)
    up = np.stack([wave(h, 1, p) for h, p in zip(high, phases, strict=True)])
    down = np.stack([wave(1, h, p) for h, p in zip(high, phases, strict=True)])

    unit = pair(np.concatenate([up, down]), 0.1)

    assert sorted(np.bincount(unit).tolist()) == [2] * 6
    assert ((up + down).max(axis=1) == (up + down).min(axis=1)).all()


def test_pair_when_streams_rise_together_then_pairs_none():
    assert len(np.unique(pair(np.stack([wave(5, 1, 0)] * 3), 0.1))) == 3
    assert len(pair(np.zeros((1, 4)), 0.1)) == 1
    assert len(np.unique(pair(np.zeros((3, 4)), 0.1))) == 3


@examples(60)
@given(posed=problems())
def test_placement_when_streams_move_then_sums_are_those_of_its_nodes(posed):
    placement, rng = StreamPlacement(posed, 1.0), np.random.default_rng(0)
    for s in rng.permutation(posed.streams):
        placement.put(int(s), placement.open() if rng.random() < 0.3 else int(rng.integers(0, 3)))

    for n in range(len(placement.count)):
        assert placement.sums[n] == pytest.approx(posed.mean[:, placement.node == n].sum(axis=1), abs=1e-9)
        assert placement.noise[n] == pytest.approx(posed.variance[:, placement.node == n].sum(axis=1), abs=1e-9)
        assert placement.count[n] == (placement.node == n).sum()


@examples(60)
@given(posed=problems(), data=st.data())
def test_placement_when_moves_are_undone_then_is_as_before(posed, data):
    placement = StreamPlacement(posed, 1.0)
    settled = np.flatnonzero(placement.node >= 0)
    before = [v.copy() for v in (placement.node, placement.count, placement.sums, placement.noise)]

    moves = []
    for s in data.draw(st.lists(st.sampled_from(settled.tolist()), max_size=6)) if len(settled) else []:
        target = data.draw(st.sampled_from([n for n in range(len(placement.count)) if n != placement.node[s]]))
        moves.append(placement.snapshot(s, target))
        placement.put(s, target)
    for move in reversed(moves):
        placement.restore(move)

    for now, then in zip((placement.node, placement.count, placement.sums, placement.noise), before, strict=True):
        assert now.tolist() == then.tolist()


def test_windows_of_a_lone_stream_never_run_out():
    placement = StreamPlacement(problem([[6.0, 6.0, 12.0], [3.0, 3.0, 12.0], [6.0, 6.0, 12.0]], [0, 0, 1]), 0.0)

    assert placement.windows()[:2].tolist() == [0, 3]
    assert placement.window(placement.sums[[0, 1]], placement.noise[[0, 1]]).tolist() == [0, 0]


def test_has_room_names_nodes_with_that_much_left():
    placement = StreamPlacement(problem([[6.0, 9.0]], [0, 1]), 0.0)

    assert placement.has_room(np.array([0, 1, 2]), 4.0).tolist() == [True, False, True]


def test_plan_when_a_node_is_empty_for_a_while_then_weighs_what_it_saves():
    rates = np.full((8, 3), 3.0)
    rates[4:] = 6.0
    posed = problem(rates, [0, 0, 1])

    assert plan(posed, HorizonOptions(margin=0.0, move_price=4.0)).nodes == 1
    assert plan(posed, HorizonOptions(margin=0.0, move_price=4.1)).nodes == 2


def test_plan_when_a_new_stream_fits_for_a_while_then_enters_for_free():
    rates = np.full((8, 2), 4.0)
    rates[4:, 1] = 8.0

    assert plan(problem(rates, [0, NEW]), HorizonOptions(margin=0.0, move_price=100.0)).nodes == 1


def test_plan_when_a_node_cannot_be_emptied_wholly_then_moves_nothing():
    posed = problem([[6.0, 8.0, 8.0, 4.0, 3.5]] * 8, [0, 1, 2, 3, 3])

    assert len(plan(posed, HorizonOptions(margin=0.0)).redirected(posed)) == 0


def test_plan_when_one_of_two_streams_fills_a_node_then_moves_the_other():
    assert plan(problem([25.0, 4.0, 3.0], [0, 0, 1])).node.tolist() == [0, 1, 1]
    assert plan(problem([25.0, 4.0], [0, 0])).node.tolist() == [0, 1]


def repaired(rates, node):
    placement = StreamPlacement(problem(rates, node), 0.0)
    relieve_overloads(placement, HorizonOptions(margin=0.0))
    return placement.node.tolist()


def test_repair_when_one_move_is_not_enough_then_makes_several():
    assert sorted(np.bincount(repaired([[4.0] * 6] * 4, [0, 0, 0, 0, 1, 2])).tolist()) == [2, 2, 2]


def test_repair_when_no_node_helps_then_opens_one_for_the_fastest_stream():
    assert repaired([[2.0, 5.0, 4.0, 6.0]] * 4, [0, 0, 0, 0]) == [1, 0, 0, 1]


def test_repair_when_one_stream_less_is_enough_then_moves_the_slowest():
    assert repaired([[6.0, 3.0, 2.0, 1.0, 9.5]] * 4, [0, 0, 0, 0, 1]) == [0, 0, 2, 0, 1]


def test_best_node_when_there_are_many_then_searches_a_part_first():
    nodes = 4 * OFFERED
    full = np.full((1, nodes), 9.0)
    full[0, 5] = 3.0
    placement = StreamPlacement(problem(full, list(range(nodes))), 0.0)

    def best(rate, turn):
        return best_node(placement, np.array([rate]), np.zeros(1), placement.used, turn=turn)

    assert best(1.0, turn=0) == 0
    assert best(1.0, turn=3) == 3
    assert [best(6.0, turn) for turn in range(5)] == [5] * 5, "where none of the part has room, all are looked at"
    assert best(8.0, turn=1) is None


def test_plan_when_there_are_many_nodes_then_packs_them_as_closely_as_few():
    rng = np.random.default_rng(0)
    few, many = OFFERED, 8 * OFFERED
    kept = []
    for nodes in (few, many):
        rates = rng.uniform(0.5, 1.5, (1, 10 * nodes)) * 8.0 / 10
        found = plan(problem(np.repeat(rates, 4, axis=0), np.arange(10 * nodes) % nodes), HorizonOptions(margin=0.0))
        assert loads(problem(rates, np.zeros(10 * nodes, dtype=int)), found.node).max() <= 10.0 + 1e-6
        kept.append(len(np.unique(found.node)) / nodes)
    assert kept[1] == pytest.approx(kept[0], rel=0.01)


def test_best_node_is_where_the_peak_rises_least_then_the_fullest():
    rates = np.array([[3.0, 5.0, 5.0, 4.0], [3.0, 5.0, 1.0, 4.0]])
    flat, falling = (StreamPlacement(problem(rates[:, :n], [0, 1, 2][:n]), 0.0) for n in (2, 3))

    assert best_node(flat, np.array([4.0, 4.0]), np.zeros(2), flat.used) == 1
    assert best_node(falling, np.array([1.0, 5.0]), np.zeros(2), falling.used) == 2
    assert best_node(falling, np.array([8.0, 8.0]), np.zeros(2), falling.used) is None


def all_assignments(posed, most):
    """Nodes and cost of redirections of every assignment that fits on no more than this many nodes."""
    for choice in itertools.product(range(5), repeat=5):
        node = np.array(choice)
        if len(set(choice)) <= most and np.bincount(node, weights=posed.mean[0]).max() <= 10:
            yield len(set(choice)), round(float((1 + posed.rate[node != posed.node] / 10).sum()), 9)


def costs(posed, found):
    return found.nodes, round(float((1 + posed.rate[found.redirected(posed)] / 10).sum()), 9)


@pytest.mark.parametrize("seed", range(6))
def test_polish_when_redirections_are_free_then_needs_the_fewest_nodes(seed):
    rng = np.random.default_rng(seed)
    posed = problem(rng.integers(1, 8, (1, 5)).astype(float), rng.integers(0, 4, 5), nodes=4)

    found = plan(posed, EXACT)

    assert found.optimal
    assert costs(posed, found) == min(all_assignments(posed, 5))


@pytest.mark.parametrize("price", [0.7, 3.0])
@pytest.mark.parametrize("seed", range(6))
def test_polish_when_redirections_have_a_price_then_costs_the_least(seed, price):
    rng = np.random.default_rng(seed)
    posed = problem(rng.integers(1, 8, (1, 5)).astype(float), rng.integers(0, 4, 5), nodes=4)
    options = EXACT.model_copy(update={"move_price": price})
    most = plan(posed, options.model_copy(update={"polish": False})).nodes

    found = plan(posed, options)

    assert found.optimal
    assert np.dot(costs(posed, found), (1, price)) == pytest.approx(
        min(np.dot(cost, (1, price)) for cost in all_assignments(posed, most)), abs=0.01
    )


def test_polish_opens_no_node_to_save_a_redirection():
    posed = problem([[6.0, 5.0, 5.0, 4.0]], [0, 0, 1, 1])

    assert plan(posed, EXACT.model_copy(update={"move_price": 3.0})).nodes == 2


def test_polish_when_its_plan_lasts_less_long_then_keeps_the_given_one():
    rates = np.full((24, 2), 4.0)
    rates[5] = 8.0  # a period outside the program's horizon

    found = plan(problem(rates, [0, 1]), EXACT.model_copy(update={"move_price": 4.0}))

    assert found.nodes == 2
    assert not found.optimal


def test_polish_when_rates_are_uncertain_then_knows_that_they_do_not_fit():
    found = plan(
        problem([[4.8, 4.8]], [0, 1], variance=0.05), EXACT.model_copy(update={"margin": 3.0, "patience": 0.0})
    )

    assert found.nodes == 2
    assert found.optimal


def test_polish_when_a_stream_sends_nothing_then_its_node_counts_too():
    posed = problem([[0.0, 9.0, 9.0]], [0, 1, 2])

    assert plan(posed, EXACT.model_copy(update={"move_price": 0.7})).nodes == 2


@examples(25)
@given(posed=problems(streams=6, periods=3))
def test_polish_needs_no_more_nodes_and_overloads_none(posed):
    plain, polished = plan(posed, HorizonOptions(margin=1.0)), plan(posed, HorizonOptions(margin=1.0, polish=True))

    assert polished.nodes <= plain.nodes
    for n in np.unique(polished.node):
        on = polished.node == n
        assert on.sum() == 1 or posed.mean[0, on].sum() <= posed.capacity * (1 + 1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"ahead": 0},
        {"margin": -1.0},
        {"patience": 2.0},
        {"pairing": 0.0},
        {"polish": 1},
        {"effort": 0.0},
        {"catch_up_s": 0.0},
    ],
)
def test_options_when_out_of_range_then_are_refused(changes):
    with pytest.raises(MillraceError, match=r"admission\.options"):
        HorizonOptions(**changes)

"""The protocol's scenarios, on small sizes."""

import pytest

from benchmarks.esj import block_vs_tuple, interleavings, sharing
from benchmarks.esj.feeding import feed, streams
from benchmarks.esj.protocol_targets import TARGETS
from benchmarks.esj.schedule import Outcome
from benchmarks.esj.wire import decode, encode
from benchmarks.targets import judged
from millrace.joins.mp2pf.link import AFTER_ALL, Message
from millrace.joins.mp2pf.rules import Rules


def by_figure(records, method):
    return {r.figure: r.value for r in records if r.method == method}


def test_interleavings_when_few_are_run_then_ours_is_exact_and_the_literal_is_not(monkeypatch):
    monkeypatch.setattr(interleavings, "QUICK_RUNS", 60)
    monkeypatch.setattr(interleavings, "QUICK_RIVAL_RUNS", 60)

    found = judged(list(interleavings.records(True)), TARGETS)

    assert all(r.holds for r in found if r.target)
    assert {r.figure for r in found if r.target} >= {"pairs_lost", "pairs_doubled", "workload_difference_over_block"}
    literal = by_figure(found, "literal")
    assert literal["pairs_doubled"] > 0
    assert literal["pairs_lost"] > 0
    assert literal["workload_difference_over_block"] > 0
    assert by_figure(found, "literal_no_copies")["pairs_lost"] > 0


def test_tally_when_added_then_keeps_the_highest_excess():
    both = Outcome(over=3, lost=1).plus(Outcome(over=2, lost=4))

    assert both == Outcome(over=3, lost=5)


def test_sharing_when_tasks_double_then_only_copies_cost_more(monkeypatch):
    monkeypatch.setattr(sharing, "QUICK_TASKS", (1, 4))
    found = list(sharing.records(True))

    def cost(scenario, method):
        return by_figure([r for r in found if r.scenario == scenario], method)

    assert cost("sharing_4", "ours")["bytes_per_tuple"] == cost("sharing_1", "ours")["bytes_per_tuple"]
    copies = cost("sharing_4", "copy_per_task")["messages_per_tuple"]
    assert copies > 3 * cost("sharing_1", "ours")["messages_per_tuple"]
    assert all(r.value == 0 for r in found if r.figure == "matches_different")


def test_block_vs_tuple_when_blocks_grow_then_messages_shrink_and_differences_stay_below_a_block(monkeypatch):
    monkeypatch.setattr(block_vs_tuple, "QUICK_WINDOW", 60)
    monkeypatch.setattr(block_vs_tuple, "QUICK_BLOCKS", (4, 16))
    found = list(block_vs_tuple.records(True))

    messages = [r.value for r in found if r.figure == "messages_per_tuple"]
    assert messages == sorted(messages, reverse=True)
    assert messages[0] > 2 * messages[1]
    assert all(r.value == 0 for r in found if r.figure == "workload_difference_over_block")


def test_feeding_when_it_ends_then_all_pairs_have_met():
    both = streams(40, seed=1)

    fed = feed(both, Rules(5, 5), 3, 4)

    expected = sorted((r, s) for r in both[0] for s in both[1] if abs(r[0] - s[0]) <= 5)
    assert sorted(fed.met) == expected


@pytest.mark.parametrize("rows", [(), ((3.0, (1, 2, 0.5)), (4.0, (7, 0, -1.25)))])
def test_message_when_written_and_read_then_is_the_same(rows):
    message = Message("TUPLE_BLK", 3, rows, 2, 9, 40, AFTER_ALL, 8)

    assert decode(*encode(message)) == message
    assert decode(*encode(message._replace(clock=1.0))) != message

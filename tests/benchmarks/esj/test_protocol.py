"""The scenarios of message passing, on small sizes."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from benchmarks.esj import message_costs, random_batches
from benchmarks.esj.protocol_targets import TARGETS
from benchmarks.record import Record
from benchmarks.targets import judged
from millrace.joins.chain import Chain
from millrace.model.join import MP2PF


def by_figure(records: Iterable[Record], scenario: str, method: str) -> dict[str, float]:
    return {r.figure: r.value for r in records if (r.scenario, r.method) == (scenario, method)}


def test_random_batches_lose_and_repeat_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_batches, "QUICK_RUNS", 2)
    found = judged(list(random_batches.records(True)), TARGETS)
    assert all(r.holds for r in found if r.target) and sum(bool(r.target) for r in found) == len(TARGETS)
    assert all(by_figure(found, "random_batches", method)["pairs"] > 100 for method in random_batches.METHODS)


def test_random_batches_count_the_pairs_that_cross_on_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chain, "sent", lambda self, target: {})  # as if copies were not kept
    total = random_batches.Outcome()
    for seed in range(3):
        random_batches.run(MP2PF, random.Random(seed), total)
    assert total.lost > 0 and total.doubled == 0


def test_messages_shrink_with_blocks_and_do_not_grow_with_tasks_that_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_costs, "QUICK_WINDOW", 96)
    found = list(message_costs.records(True))
    for method in message_costs.METHODS:
        single, block = (by_figure(found, f"messages_block_{size}", method) for size in (1, 16))
        assert single["messages_per_tuple"] > 4 * block["messages_per_tuple"]
        assert single["bytes_per_tuple"] > block["bytes_per_tuple"]
        one, four = (by_figure(found, f"messages_tasks_{tasks}", method) for tasks in (1, 4))
        assert one == four

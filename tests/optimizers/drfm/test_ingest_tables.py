from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from millrace.model.codec import to_json
from millrace.model.deployment import NOWHERE
from millrace.optimizers.conformance.builders import deployment
from millrace.optimizers.drfm.ingest_tables import full_tables, match_tables
from millrace.optimizers.registry import Role, create
from tests.examples import examples
from tests.optimizers.drfm.stream_counts import counts, histories, look


@given(st.data(), st.integers(1, 12), st.integers(1, 4))
def test_tables_when_a_plan_has_any_nodes_then_each_stream_has_a_table(
    data: st.DataObject, streams: int, tables: int
) -> None:
    node = data.draw(hnp.arrays(np.intp, streams, elements=st.integers(0, 6)))
    before = data.draw(hnp.arrays(np.intp, streams, elements=st.integers(-1, 5)))
    rate = data.draw(hnp.arrays(float, streams, elements=st.floats(0, 100)))
    found = match_tables(node, before, tables, rate)
    assert ((found >= 0) & (found < tables)).all()
    if len(np.unique(node)) <= tables:  # then only the numbers of a plan change: streams that were together still are
        assert len(np.unique(np.stack([node, found]), axis=1).T) == len(np.unique(node)) == len(np.unique(found))


def test_tables_when_there_are_too_few_then_fills_the_least_loaded() -> None:
    node, before = np.array([0, 1, 2, 2]), np.array([0, 1, -1, -1])
    found = match_tables(node, before, 2, np.array([50.0, 20.0, 25.0, 10.0]))
    assert found.tolist() == [0, 1, 1, 1]


def test_tables_when_a_plan_keeps_its_nodes_then_streams_stay() -> None:
    before = np.array([1, 1, 0])
    assert match_tables(np.array([4, 4, 2]), before, 3, np.ones(3)).tolist() == before.tolist()


@given(st.data(), st.integers(1, 40), st.integers(1, 5), st.floats(0.1, 100))
def test_full_tables_take_new_streams_and_move_others_only_to_be_clearly_less_full(
    data: st.DataObject, streams: int, tables: int, capacity: float
) -> None:
    before = data.draw(hnp.arrays(np.intp, streams, elements=st.integers(-1, tables - 1)))
    rate = data.draw(hnp.arrays(float, streams, elements=st.floats(0, 100)))
    found, placed = full_tables(before, tables, rate, capacity), before > -1
    assert ((found >= 0) & (found < tables)).all()
    were = np.bincount(before[placed], weights=rate[placed], minlength=tables)
    load = np.bincount(found, weights=rate, minlength=tables)
    moved = placed & (found != before)
    assert not moved.any() or were.max() > capacity or load.max() <= max(were.max() + rate[~placed].sum(), capacity)
    if placed.all() and were.max() <= capacity:
        assert not moved.any()
    if placed.all() and moved.any():
        assert load.max() <= were.max()


def test_overloaded_tables_do_not_exchange_streams_in_every_period() -> None:
    """Seen live: loads were five times the capacity, and three to twelve of 30 streams moved per evaluation."""
    chance = np.random.default_rng(1)
    usual = np.arange(1, 31) ** -0.7
    table, moves = full_tables(np.arange(30) % 2, 3, usual, 0.5), []
    for _ in range(50):
        after = full_tables(table, 3, usual * chance.lognormal(0.0, 0.2, 30), 0.5)
        moves.append(int((after != table).sum()))
        table = after
    load = np.bincount(table, weights=usual)
    assert load.max() < 1.3 * load.mean()
    assert sum(moves) <= 25, "half a stream per period"


@given(histories(hours=3), st.integers(1, 3))
@examples(30)
def test_changes_lead_to_the_plan_and_the_next_evaluation_starts_from_it(
    rows: dict[str, list[int]], tables: int
) -> None:
    optimizer = create("drfm", {"capacity": 1.0, "ingest": [f"t{n}" for n in range(tables)]}, Role.ADMISSION)
    start = replace(deployment(2), ingest={"a": 0, "z": tables - 1})
    proposal, memory = optimizer.propose(look(counts(rows)), start, {})
    plan = proposal.admission
    assert plan is not None and plan.acts and not proposal.advises
    after = start.with_changes(proposal.changes)
    assert dict(after.ingest) == dict(zip(plan.stream, plan.after, strict=True))
    assert all(start.value(c) == c.before != c.value for c in proposal.changes)
    assert [c.stream for c in proposal.changes if c.value == NOWHERE] == list(plan.left)
    later = counts({name: of[-1:] for name, of in rows.items()}, first=3)
    again, _ = optimizer.propose(look(later), after, json.loads(to_json(memory)))
    if again.admission is not None:
        assert again.admission.before == tuple(after.ingest.get(s, NOWHERE) for s in again.admission.stream)


def test_sentence_when_tables_are_too_few_then_does_not_claim_the_fewest() -> None:
    optimizer = create("drfm", {"capacity": 1.0, "ingest": ["t0", "t1"]}, Role.ADMISSION)
    rows = {name: [3000] * 4 for name in "abcd"}
    proposal, _ = optimizer.propose(look(counts(rows)), deployment(2), {})
    assert proposal.admission is not None and proposal.admission.holds == 0
    assert "fewest possible" not in proposal.sentence and "fits for 0 of the next" in proposal.sentence

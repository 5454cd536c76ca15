"""Plans of batches are fixed and found again; blocks and hand-overs keep workers within one block of each other."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.joins.batch_plan import RETAINED, BatchPlan, BatchPlans, Move, level, sizes_after, sizes_before
from millrace.joins.blocks import Block
from millrace.model.errors import MillraceError
from millrace.model.join import JoinSettings


def test_plan_when_written_then_reads_back_the_same(tmp_path: Path) -> None:
    plan = BatchPlan(7, JoinSettings(3, 50, 0.25), {"r": 5, "s": -3}, (10, 0, 40), (Move(2, 1, 5),), ((1, 0), (1, 2)))
    plans = BatchPlans(tmp_path / "join")
    plans.write(plan)
    assert plans.read(7) == plan


def test_plan_from_a_checkpoint_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    stored = (
        '{"batch_id":7,"clocks":{"r":5,"s":-3},"handed":[[1,0]],"moves":[{"source":2,"target":1,"tuples":5}],'
        '"settings":{"block":50,"shed":0.25,"workers":3},"sizes":[10,0,40]}'
    )
    (tmp_path / "terms-000000007-.json").write_text(stored)
    (tmp_path / "handed-000000007-1-0").write_bytes(b"tuples")
    plan = BatchPlan(7, JoinSettings(3, 50, 0.25), {"r": 5, "s": -3}, (10, 0, 40), (Move(2, 1, 5),), ((1, 0),))
    assert BatchPlans(tmp_path).read(7) == plan
    assert BatchPlans(tmp_path).handed(7, 1, 0) == b"tuples"


def test_reach_includes_leaving_workers_that_still_have_tuples() -> None:
    settings = JoinSettings(2)
    assert BatchPlan(0, settings).reach == (0, 1)
    assert BatchPlan(1, settings, sizes=(5, 5, 0, 4)).reach == (0, 1, 3)
    assert BatchPlan(1, settings, sizes=(9, 0, 0), moves=(Move(2, 0, 4),)).reach == (0, 1, 2)
    assert BatchPlan(1, settings, sizes=(9, 0, 0), handed=((2, 0),)).reach == (0, 1, 2)
    assert BatchPlan(1, settings, chain=3).reach == (0, 1, 2)


def test_last_worker_leaves_a_chain_that_is_longer_than_wanted() -> None:
    settings = JoinSettings(2)
    assert [BatchPlan(0, settings, chain=length).leaving for length in (0, 2, 3, 4)] == [None, None, 2, 3]


def test_begin_when_there_are_terms_then_keeps_them(tmp_path: Path) -> None:
    plans = BatchPlans(tmp_path)
    plans.begin(BatchPlan(0, JoinSettings(2)))
    plans.begin(BatchPlan(0, JoinSettings(5)))
    assert plans.read(0).settings.workers == 2
    for batch_id in range(1, 30):
        plans.hand(batch_id, 0, 1, b"x")
        plans.write(BatchPlan(batch_id, JoinSettings(3)))
    plans.begin(BatchPlan(0, JoinSettings(5)))
    assert sorted(p.name.split("-")[1] for p in tmp_path.glob("terms-*")) == [
        f"{i:09d}" for i in range(29 - RETAINED, 30)
    ]
    assert len(list(tmp_path.glob("handed-*"))) == RETAINED + 1
    assert plans.handed(29, 0, 1) == b"x"


def test_read_when_terms_are_missing_then_says_how_to_fix_it(tmp_path: Path) -> None:
    with pytest.raises(MillraceError, match="checkpoint"):
        BatchPlans(tmp_path).read(4)


SIZES = st.lists(st.integers(0, 500), max_size=8)


def block(stream: int, rows: int) -> Block:
    return Block(stream, 0, 0, rows, 0, 0, b"", b"")


@given(SIZES, st.integers(1, 8), st.integers(1, 100))
def test_moves_level_workers_and_empty_removed_ones(sizes, workers, size) -> None:
    moves = level(sizes, workers, size)
    after = sizes_after(sizes, moves)
    assert sum(after) == sum(sizes) and min(after, default=0) >= 0
    staying = [*after[:workers], *[0] * (workers - len(after))]
    assert max(staying) - min(staying) <= size and not any(after[workers:])
    assert all(m.tuples > 0 and m.source != m.target for m in moves)
    assert level(after, workers, size) == ()
    before = sizes_before(after, moves, len(sizes))
    assert before[: len(sizes)] == sizes and not any(before[len(sizes) :])


@given(
    st.integers(0, 300),
    st.integers(1, 6),
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 50)), max_size=40),
)
def test_place_keeps_level_neighbours_within_a_block(start, workers, size, coming) -> None:
    blocks = [block(stream, min(rows, size)) for stream, rows in coming]
    plan = BatchPlan(3, JoinSettings(workers, size), sizes=(start,) * workers)
    homes = plan.place(blocks)
    after = [start] * workers
    for home, each in zip(homes, blocks, strict=True):
        after[home] += each.rows
    assert all(abs(a - b) <= size for a, b in pairwise(after))


def test_place_when_a_worker_was_added_then_it_gets_the_next_blocks() -> None:
    plan = BatchPlan(3, JoinSettings(3, 10), sizes=(40, 40))
    assert plan.place([block(0, 10), block(1, 10), block(0, 10)]) == [2, 2, 2]

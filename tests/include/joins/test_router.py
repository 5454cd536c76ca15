"""Rows become blocks: each row is in one block, late or shed, and blocks reach all workers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millrace.joins.batch_plan import BatchPlan
from millrace.joins.blocks import Block, unpack, unpack_times
from millrace.joins.join_plan import TIME
from millrace.joins.router import HASH, copies, cut, deliveries, sheds
from millrace.model.join import MP2PF, JoinSettings, JoinTask
from tests.include.joins.tuples import ROWS, SCHEMA, SECOND, plan, table

TASK = JoinTask("t", "r", "s", (), -1, 1)


@given(
    ROWS,
    st.lists(st.booleans(), min_size=25, max_size=25),
    st.integers(1, 9),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.one_of(st.none(), st.integers(-20, 20)),
    st.integers(0, 8),
)
def test_cut_keeps_sheds_or_drops_each_row_as_late(rows, known, size, share, clock, late_s) -> None:
    made = table(rows)
    times = [t if k else None for t, k in zip(made[TIME].to_pylist(), known, strict=False)]
    hashes = np.random.default_rng(len(rows)).integers(-(2**62), 2**62, len(rows))
    made = made.set_column(0, TIME, pa.array(times, pa.int64())).append_column(HASH, pa.array(hashes, pa.int64()))
    clocks = {} if clock is None else {"r": clock * SECOND}
    batch = BatchPlan(3, JoinSettings(2, size, share), clocks, sizes=(0, 0, 4))
    join = plan(Path(), replace(TASK), workers=4, late_s=late_s)
    blocks_of_batch = cut(join, "r", made, batch, 5, 10)
    sent = copies(blocks_of_batch, [join.keys[w] for w in batch.reach]).to_pylist()
    assert Counter(row["key"] for row in sent) == {key: len(blocks_of_batch) for key in (0, 1, 2)}
    blocks = [Block(*list(row.values())[1:]) for row in sent if row["key"] == 2]
    assert [block.number for block in blocks] == list(range(10, 10 + len(blocks_of_batch)))
    assert all(block.rows <= size for block in blocks) and sum(block.rows < size for block in blocks) <= 1
    on_time = [t is not None and (clock is None or t >= (clock - late_s) * SECOND) for t in times]
    away = sheds(hashes, 3, share)
    kept = [tuple(row.values()) for block in blocks for row in unpack(block.tuples, SCHEMA).to_pylist()]
    whole = [(t, *row[1:]) for t, row in zip(times, rows, strict=True)]
    assert kept == [row for row, there, gone in zip(whole, on_time, away, strict=True) if there and not gone]
    dropped = [t for block in blocks for t in unpack_times(block.shed).tolist()]
    assert dropped == [t for t, there, gone in zip(times, on_time, away, strict=True) if there and gone]
    assert sum(block.late for block in blocks) == len(rows) - sum(on_time)


def test_blocks_go_to_the_end_of_the_chain_where_they_enter_and_wake_the_others() -> None:
    join = plan(Path(), TASK, workers=4, forwarding=MP2PF)
    rows = table([(1, 7, "a", 0)] * 5).append_column(HASH, pa.array(range(5), pa.int64()))
    batch = BatchPlan(3, JoinSettings(2, 2), chain=3)
    for stream, entry in (("r", 0), ("s", 2)):
        sent: dict[int, list[int]] = {}
        for first in (0, 3):  # Spark hands the rows of a task over in several portions
            for part in deliveries(join, stream, batch, cut(join, stream, rows, batch, 0, first)):
                for row in part.to_pylist():
                    sent.setdefault(row["key"], []).append(row["rows"])
        assert sent == {key: [2, 2, 1, 2, 2, 1] if key == entry else [0] for key in range(3)}
    alone = list(deliveries(join, "s", BatchPlan(3, JoinSettings(1, 2), chain=1), cut(join, "s", rows, batch, 0, 0)))
    assert [row["key"] for part in alone for row in part.to_pylist()] == [0, 0, 0]


@given(st.integers(0, 1000), st.floats(0, 1))
def test_sheds_about_the_share_and_different_rows_per_batch(batch_id, share) -> None:
    hashes = np.random.default_rng(5).integers(-(2**63), 2**63 - 1, 4000)
    away = sheds(hashes, batch_id, share)
    assert abs(away.mean() - share) < 0.04
    if 0.2 < share < 0.8:
        assert (away != sheds(hashes, batch_id + 1, share)).mean() > 0.1

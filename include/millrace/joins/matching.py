"""Find the pairs of two sets of tuples that a task's predicate accepts, by sorting instead of comparing all pairs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millrace.joins.join_plan import TIME, micros
from millrace.model.join import JoinTask

MOST_PAIRS = 1 << 20
"""Pairs built at once. Limits the memory of a task with many matches."""

Ints = npt.NDArray[np.int64]


def condition(task: str, side: str) -> str:
    """Return the name of the column that shows if a tuple meets a task's condition on one side."""
    return f"_{side}_{task}"


def pairs(task: JoinTask, left: pa.Table, right: pa.Table) -> Iterator[tuple[Ints, Ints]]:
    """Yield the matching pairs as row numbers of the left and of the right tuples, in portions of limited size.

    Args:
        task: The predicate.
        left: Tuples with :data:`TIME`, the task's columns and its condition, if it has one.
        right: The same for the other side.
    """
    rows_l, rows_r = _meets(left, condition(task.name, "left")), _meets(right, condition(task.name, "right"))
    left, right = left.take(rows_l), right.take(rows_r)
    keys_l, keys_r = _keys(task, left, right)
    # a null key equals nothing
    valid_l, valid_r = np.flatnonzero(keys_l >= 0), np.flatnonzero(keys_r >= 0)
    if not len(valid_l) or not len(valid_r):
        return
    rows_l, keys_l, time_l = rows_l[valid_l], keys_l[valid_l], _times(left)[valid_l]
    rows_r, keys_r, time_r = rows_r[valid_r], keys_r[valid_r], _times(right)[valid_r]
    # replace times by their ranks on the right side: key and time then always fit into one number
    ordered = np.sort(time_r)
    span = len(ordered) + 1
    place = keys_r * span + np.searchsorted(ordered, time_r, "left")
    order = np.argsort(place, kind="stable")
    place = place[order]
    first = keys_l * span + np.searchsorted(ordered, time_l + micros(task.after_s), "left")
    last = keys_l * span + np.searchsorted(ordered, time_l + micros(task.before_s), "right")
    begin, end = np.searchsorted(place, first, "left"), np.searchsorted(place, last, "left")
    counts = np.maximum(end - begin, 0)
    for start, stop in _portions(counts):
        count = counts[start:stop]
        total = int(count.sum())
        if not total:
            continue
        inside = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
        yield (
            np.repeat(rows_l[start:stop], count),
            rows_r[order[np.repeat(begin[start:stop], count) + inside]],
        )


def _meets(tuples: pa.Table, column: str) -> Ints:
    if column not in tuples.column_names:
        return np.arange(tuples.num_rows)
    # an unknown (null) condition is not met
    return np.flatnonzero(pc.fill_null(tuples[column], False).to_numpy())


def _keys(task: JoinTask, left: pa.Table, right: pa.Table) -> tuple[Ints, Ints]:
    """Return a number per combination of key values, the same on both sides; -1 if any value is null."""
    size = left.num_rows
    keys = np.zeros(size + right.num_rows, np.int64)
    null = np.zeros(len(keys), bool)
    for column_l, column_r in task.on:
        both = pa.concat_arrays([*left[column_l].chunks, *right[column_r].chunks])
        if pa.types.is_floating(both.type):
            both = pc.add(both, 0.0)  # -0.0 becomes 0.0: the two are equal, but not their bytes
        codes = pc.fill_null(both.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        null |= codes < 0
        # renumber after each column: the combined codes then never overflow
        _, keys = np.unique(keys * (len(codes) + 1) + codes + 1, return_inverse=True)
    keys = np.where(null, -1, keys)
    return keys[:size], keys[size:]


def _times(tuples: pa.Table) -> Ints:
    return np.asarray(tuples[TIME].to_numpy(), np.int64)


def _portions(counts: Ints) -> Iterator[tuple[int, int]]:
    """Yield ranges of left rows with at most :data:`MOST_PAIRS` pairs in total, or a single left row with more."""
    start, ends = 0, np.cumsum(counts)
    while start < len(counts):
        done = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, done + MOST_PAIRS, "right")), start + 1)
        yield start, stop
        start = stop

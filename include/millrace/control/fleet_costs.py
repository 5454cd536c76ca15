"""What streams of a fleet cost their nodes, in slot-seconds, learned from their recent batches.

Symbols, per batch: x rows, d duration, u useful time of its tasks; on its node, m slots and n(t) batches at a time.

    e = int min(1, m / n(t)) dt   over the batch's duration: its share of the node
    y = max(u, e)                 its cost

Tasks keep slots busy for u seconds. If they are short, the driver still plans and commits, which takes one slot. It
does not take d: triggers of one interval fire together, so batches wait for each other, and d says more of the
neighbours than of the batch. Of n batches on m slots, each gets m / n of a slot.

Per stream, y = f + c x:
    c   slope of u between the batches with few rows and those with many, as medians of both halves, in [0, u / x]
    f   median of y - c x
If rows hardly vary, all useful time counts as the rows': c = median of u / x. Medians, as a collector's pause, a slow
commit or a busy machine make single batches longer.

Reference: the line through two medians is that of G. Brown, A. Mood: On median tests for linear hypotheses, 1951.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millrace.control.batch_history import HISTORY
from millrace.control.fleet_batches import BATCHES, of_streams
from millrace.lake.store import Lake, literal
from millrace.model.spec import PipelineSpec

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

NEWEST = 40
"""Newest batches of a stream that count: its rows may become others."""
LEAST = 6
"""Fewest batches that show a slope."""
VARIES = 1.5
"""Rows of the larger batches over those of the smaller ones from which they show a slope."""


@dataclass(frozen=True)
class StreamCosts:
    """What K streams cost a node.

    Attributes:
        stream: Their names, in alphabetical order.
        batch_s: Slot-seconds of each batch, whatever it reads, shape (K,), >= 0.
        row_s: Slot-seconds of each row, shape (K,), >= 0.
        rows: Rows of a usual batch, shape (K,), >= 0.
    """

    stream: tuple[str, ...]
    batch_s: Floats
    row_s: Floats
    rows: Floats

    def of(self, streams: Sequence[str]) -> StreamCosts:
        """Return the costs of other streams; those that are not known get the medians of all."""
        place = {name: index for index, name in enumerate(self.stream)}
        at = np.array([place.get(name, len(place)) for name in streams], dtype=np.intp)
        columns = (np.r_[column, np.median(column)][at] for column in (self.batch_s, self.row_s, self.rows))
        return StreamCosts(tuple(streams), *columns)


@dataclass(frozen=True)
class _Ran:
    """B batches, by stream and then by time; each array has the shape (B,).

    Attributes:
        stream: Index of the stream.
        run: Number of the node's driver: equal if the same driver ran both.
        node: Number of the node.
        slots: Its slots.
        begin: When it started, seconds.
        end: When it ended, seconds.
        rows: x.
        useful_s: u, 0 if unknown.
    """

    stream: Ints
    run: Ints
    node: Ints
    slots: Floats
    begin: Floats
    end: Floats
    rows: Floats
    useful_s: Floats


def learned_costs(spec: PipelineSpec, lake: Lake, now: datetime) -> StreamCosts | None:
    """Return what a fleet's streams cost, as far as recent batches show it; None without any batch.

    Args:
        spec: The fleet.
        lake: The lake of its telemetry.
        now: The present (UTC).
    """
    found = _read(spec, lake, now)
    if found is None:
        return None
    names, ran = found
    cost = np.maximum(ran.useful_s, _shares(ran))
    use = np.flatnonzero(_counts(ran, len(names)))
    x, u, y = (_newest(ran.stream[use], of[use], len(names)) for of in (ran.rows, ran.useful_s, cost))
    row_s = _row_cost(x, np.where(_median(u)[:, None] > 0, u, y))
    batch_s = np.maximum(_median(y - row_s[:, None] * x), 0.0)
    return StreamCosts(names, batch_s, row_s, _median(x))


def _read(spec: PipelineSpec, lake: Lake, now: datetime) -> tuple[tuple[str, ...], _Ran] | None:
    """Return the names of the streams that ran a batch lately, in alphabetical order, and the batches; None without."""
    sql = f"""
        select query, app, generation, batch_id, slots, rows_in, date_part('epoch', time) as ended,
            durations_ms['triggerExecution'] / 1000.0 as took_s, operators
        from batches where {of_streams(spec)} and time >= {literal(now - HISTORY)} and time <= {literal(now)}
            and durations_ms['triggerExecution'] > 0 and slots >= 1 and rows_in >= 0
    """  # noqa: S608 - values pass through literal()
    table = lake.query(sql, BATCHES)
    if not table.num_rows:
        return None
    names, stream = _numbered(table["query"])
    _, node = _numbered(table["app"])
    number = {name: table[name].to_numpy().astype(float) for name in ("generation", "batch_id", "slots", "rows_in")}
    ended, took_s = (table[name].to_numpy().astype(float) for name in ("ended", "took_s"))
    run = node * int(number["generation"].max() + 1) + number["generation"].astype(np.intp)
    order = np.lexsort((number["batch_id"], ended, stream))
    key = np.stack([stream, run, number["batch_id"], ended])[:, order]
    order = order[np.r_[True, (key[:, 1:] != key[:, :-1]).any(axis=0)]]  # a batch may be reported twice
    begin, useful_s = ended - took_s, _useful_s(table)
    return names, _Ran(
        stream=stream[order],
        run=run[order],
        node=node[order],
        slots=number["slots"][order],
        begin=begin[order],
        end=ended[order],
        rows=number["rows_in"][order],
        useful_s=useful_s[order],
    )


def _numbered(column: pa.ChunkedArray) -> tuple[tuple[str, ...], Ints]:
    """Return the distinct names in alphabetical order, and the index of each."""
    coded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    order = np.argsort(np.array(coded.dictionary.to_pylist(), dtype=object))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    names = coded.dictionary.to_pylist()
    return tuple(names[at] for at in order), rank[coded.indices.to_numpy()]


def _useful_s(table: pa.Table) -> Floats:
    """Return the useful time of all operators of each batch, shape (B,), seconds."""
    operators = table["operators"].combine_chunks()
    useful = pc.struct_field(pc.list_flatten(operators), "useful_s").to_numpy(zero_copy_only=False)
    batch = pc.list_parent_indices(operators).to_numpy()
    sums = np.bincount(batch, weights=np.nan_to_num(useful, posinf=0.0, neginf=0.0), minlength=table.num_rows)
    return np.maximum(sums, 0.0)


def _shares(ran: _Ran) -> Floats:
    """Return e of each batch, shape (B,), seconds."""
    share = np.zeros(len(ran.end))
    for node in np.unique(ran.node):
        at = np.flatnonzero(ran.node == node)
        times = np.r_[ran.begin[at], ran.end[at]]
        order = np.argsort(times, kind="stable")
        running = np.cumsum(np.repeat([1, -1], len(at))[order])[:-1]
        pace = np.minimum(1.0, np.median(ran.slots[at]) / np.maximum(running, 1))
        worked = np.r_[0.0, np.cumsum(pace * np.diff(times[order]))]
        share[at] = np.interp(ran.end[at], times[order], worked) - np.interp(ran.begin[at], times[order], worked)
    return share


def _counts(ran: _Ran, streams: int) -> NDArray[np.bool_]:
    """Return which batches show the usual cost, shape (B,): all but the first of each driver, if there are others."""
    same = (ran.stream[1:] == ran.stream[:-1]) & (ran.run[1:] == ran.run[:-1])
    warm = np.r_[False, same]
    known = np.bincount(ran.stream, weights=warm, minlength=streams) > 0
    return np.asarray(warm | ~known[ran.stream])


def _newest(stream: Ints, values: Floats, streams: int) -> Floats:
    """Return the newest values of each stream, shape (K, NEWEST), NaN where there are fewer; sorted by stream, time."""
    last = np.cumsum(np.bincount(stream, minlength=streams)) - 1
    age = last[stream] - np.arange(len(stream))
    young = age < NEWEST
    found = np.full((streams, NEWEST), np.nan)
    found[stream[young], age[young]] = values[young]
    return found


def _row_cost(x: Floats, u: Floats) -> Floats:
    """Return c of each stream, shape (K,), of rows and useful times, shape (K, NEWEST) each."""
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.nan_to_num(_median(np.where(x > 0, u / x, np.nan)))
        large = x > _median(x)[:, None]
        (x0, u0), (x1, u1) = (
            (_median(np.where(half, x, np.nan)), _median(np.where(half, u, np.nan))) for half in (~large, large)
        )
        slope = (u1 - u0) / (x1 - x0)
    shown = (np.isfinite(x).sum(axis=1) >= LEAST) & (x1 >= VARIES * x0)
    return np.clip(np.where(shown, slope, most), 0.0, most)


def _median(values: Floats) -> Floats:
    """Return the median of each row without its NaNs, shape (K,) of (K, n); NaN for rows of NaNs."""
    ordered, count = np.sort(values, axis=1), np.isfinite(values).sum(axis=1)
    low, high = (np.maximum(at, 0) for at in ((count - 1) // 2, count // 2))
    every = np.arange(len(values))
    middle = (ordered[every, low] + ordered[every, np.minimum(high, values.shape[1] - 1)]) / 2
    return np.where(count > 0, middle, np.nan)

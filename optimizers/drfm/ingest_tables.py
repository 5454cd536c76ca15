"""A plan's nodes as the ingest tables of a feed, or the drivers of a fleet: there are only so many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from millrace.optimizers.arrays import Floats, Ints
from millrace.optimizers.drfm.admission_state import AdmissionState
from millrace.optimizers.drfm.problem import NEW, renumber

LESS_LOADED = 0.9
"""Share of the load of a stream's table that both tables must end up with at most if the stream changes tables, if all
are full. Without this, streams would change tables in every period without any gain."""


def at_tables(
    state: AdmissionState,
    before: Mapping[str, int],
    up: Sequence[int],
    rate: Floats,
    capacity: float,
    running: Sequence[int] = (),
) -> AdmissionState:
    """Return the state with the plan's nodes mapped to the ingest tables that may get streams.

    If the plan wants more tables than there are, they are full, see :func:`full_tables`.

    Args:
        state: The plan, which may use any number of nodes.
        before: Table of each stream that has one.
        up: Numbers of the tables that may get streams, ascending, at least one.
        rate: Expected rate of each stream, shape (S,), >= 0.
        capacity: Rate that a table can take, > 0.
        running: Those of them that are nodes which run even without streams; the plan has them by these numbers.
    """
    place = {table: number for number, table in enumerate(up)}
    former = np.array([place.get(before.get(name, NEW), NEW) for name in state.streams], dtype=np.intp)
    if len(np.unique(state.node)) > len(up):
        table = full_tables(former, len(up), rate, capacity)
    else:
        planned = [place[node] if node in running else len(up) + node for node in state.node.tolist()]
        always = [place[node] for node in running]
        table = match_tables(np.array(planned, dtype=np.intp), former, len(up), rate, always)
    return replace(state, node=np.array(up, dtype=np.intp)[table])


def full_tables(before: Ints, tables: int, rate: Floats, capacity: float) -> Ints:
    """Return the table of each stream, shape (S,), if there are too few for a plan with its margin.

    New streams go to the least loaded table, the fastest first. Others stay, unless a table exceeds its capacity: then
    a stream of the fullest moves to the least loaded, as long as that makes the fuller of both clearly less full.

    Args:
        before: Former table of each stream, shape (S,); -1 without one.
        tables: Number of tables, >= 1.
        rate: Expected rate of each stream, shape (S,), >= 0.
        capacity: Rate that a table can take, > 0.
    """
    table, placed = before.copy(), before > NEW
    load: Floats = np.bincount(before[placed], weights=rate[placed], minlength=tables).astype(float)
    _fill(np.flatnonzero(~placed), before, table, load, rate)
    while load.max() > capacity:
        most, least = int(load.argmax()), int(load.argmin())
        members = np.flatnonzero(table == most)
        fuller = np.maximum(load[most] - rate[members], load[least] + rate[members])
        if fuller.min() > LESS_LOADED * load[most]:
            break
        stream = members[fuller.argmin()]
        table[stream] = least
        load[most], load[least] = load[most] - rate[stream], load[least] + rate[stream]
    return table


def match_tables(node: Ints, before: Ints, tables: int, rate: Floats, running: Sequence[int] = ()) -> Ints:
    """Return the ingest table of each stream, shape (S,), moving as few streams as possible.

    Args:
        node: Node of each stream in a plan that may use any number of nodes, shape (S,), >= 0.
        before: Former table of each, shape (S,); -1 without one.
        tables: Number of tables, >= 1. Streams of further nodes go to the least loaded tables, the fastest first,
            unless their former table is hardly fuller.
        rate: Expected rate of each stream, shape (S,), >= 0.
        running: Numbers of tables that are nodes which run even without streams; ``node`` has them by these numbers.
    """
    before = np.where(before < tables, before, NEW)  # a spec may name fewer tables than before
    table = renumber(node, before, tables, running)
    load: Floats = np.bincount(table, weights=rate, minlength=tables)[:tables].astype(float)
    _fill(np.flatnonzero(table >= tables), before, table, load, rate)
    return table


def _fill(streams: Ints, before: Ints, table: Ints, load: Floats, rate: Floats) -> None:
    """Put streams on the least loaded tables, the fastest first, unless their former table is hardly fuller.

    Args:
        streams: The streams.
        before: Former table of all streams, shape (S,); -1 without one.
        table: Table of all streams, shape (S,); changed.
        load: Sum of the rates on each table, shape (T,); changed.
        rate: Rate of all streams, shape (S,).
    """
    for stream in streams[np.argsort(-rate[streams], kind="stable")]:
        least, former = int(load.argmin()), int(before[stream])
        stays = former > NEW and load[least] + rate[stream] >= LESS_LOADED * (load[former] + rate[stream])
        table[stream] = former if stays else least
        load[table[stream]] += rate[stream]

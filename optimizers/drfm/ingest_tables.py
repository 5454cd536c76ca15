"""A plan's nodes as the ingest tables of a feed, or the drivers of a fleet: there are only so many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from millrace.optimizers.arrays import Floats, Ints
from millrace.optimizers.drfm.admission_state import AdmissionState
from millrace.optimizers.drfm.problem import NEW, renumber

LESS_LOADED = 0.9
"""Share of the load of a stream's table that another table must end up with to get the stream, if all are full. Without
this, streams would change tables in every period, and help nobody."""


def at_tables(
    state: AdmissionState,
    before: Mapping[str, int],
    up: Sequence[int],
    rate: Floats,
    capacity: float,
    running: Sequence[int] = (),
) -> AdmissionState:
    """Return the state with the plan's nodes mapped to the ingest tables that may get streams.

    If the plan wants more tables than there are, its margin cannot be had. Streams then only move if a table would
    exceed its capacity where they are.

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
    planned = [place[node] if node in running else len(up) + node for node in state.node.tolist()]
    always = [place[node] for node in running]
    table = match_tables(np.array(planned, dtype=np.intp), former, len(up), rate, always)
    if len(np.unique(state.node)) > len(up) and (former > NEW).all():
        fits = np.bincount(former, weights=rate).max(initial=0.0) <= capacity
        table = former if fits else table
    return replace(state, node=np.array(up, dtype=np.intp)[table])


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
    load = np.bincount(table, weights=rate, minlength=tables)[:tables]
    beyond = np.flatnonzero(table >= tables)
    for stream in beyond[np.argsort(-rate[beyond], kind="stable")]:
        least, former = int(load.argmin()), int(before[stream])
        stays = former > NEW and load[least] + rate[stream] >= LESS_LOADED * (load[former] + rate[stream])
        table[stream] = former if stays else least
        load[table[stream]] += rate[stream]
    return table

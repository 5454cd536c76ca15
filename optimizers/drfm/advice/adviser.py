"""drfm in the loop: at which ingest node each input stream is to enter.

Where a feed redirects its streams between ingest tables, these are the nodes, and a plan becomes changes of the
Deployment. Otherwise a plan is advice, for nodes that the spec gives a capacity: it is remembered and counts as done,
so that the next plan starts from there, as if the advice had been followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime

import numpy as np

from include.model.admission import ADVISER, AdmissionPlan, StreamCounts
from include.model.decision import Memory, Proposal
from include.model.deployment import INGEST, NOWHERE, Change, Deployment
from include.model.errors import MillraceError
from include.model.signals import Signals
from optimizers.drfm import sizing
from optimizers.drfm.advice import memory as memories
from optimizers.drfm.advice.counted import Counted, counted, number
from optimizers.drfm.advice.course import Course
from optimizers.drfm.advice.options import Options
from optimizers.drfm.advice.tables import onto_tables
from optimizers.drfm.advice.words import sentence
from optimizers.drfm.problem import NEW, Floats, Ints

FIRST, MOVES, RELEASES, STAY = "streams_to_admit", "streams_to_redirect", "nodes_to_release", "streams_stay"
NO_PROFILE, BAD_SIGNALS = "no_new_profile", "bad_signals"
LEAST_AHEAD = 16
"""Periods that a plan tells the loads of at least: the paper's strategies look no further than two."""


class Adviser:
    """Admits input streams.

    Args:
        options: Capacity, method, what is told of streams.
    """

    def __init__(self, options: Options) -> None:
        self.options = options

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Say where the streams should enter and why, and remember it."""
        counts = signals.streams
        if counts is None:
            return Proposal(ADVISER, (), NO_PROFILE, ""), memory
        kept = memories.read(memory)
        if kept is not None and kept.period_s != counts.period_s:
            kept = None
        try:
            new = counted(counts, kept.outlook.streams if kept else (), kept.since if kept else number(counts))
            if not len(new.rows):
                return Proposal(ADVISER, (), NO_PROFILE, ""), memory
            before = dict(current.ingest) if self.options.ingest else memories.nodes(kept)
            course = Course(self.options, counts.period_s, kept and kept.entering(before), new.first)
            course.take_in(new)
            told = self._told(counts, new, course, before)
        except MillraceError as error:
            return Proposal(ADVISER, (), BAD_SIGNALS, f"Streams stay: {error}"), memory
        predicted = {"ingest_nodes": float(told.split), "ingest_load_ratio": told.highest_load}
        changes = _changes(told, current) if told.acts else ()
        proposal = Proposal(ADVISER, changes, _reason(told), sentence(told), predicted, admission=told)
        return proposal, memories.write(course.kept(counts.period_s))

    def _told(self, counts: StreamCounts, new: Counted, course: Course, before: Mapping[str, int]) -> AdmissionPlan:
        period_s, streams, after = counts.period_s, course.streams, course.node
        foreseen = course.foreseen
        left = np.array([before.get(name, NEW) for name in streams], dtype=np.intp)
        entered = set(before.values())
        names, after = self._nodes(course, left, entered)
        count = len(names)
        mean, _ = course.outlook.ahead(max(self.options.ahead, LEAST_AHEAD))
        holds, least = course.bounds(mean)
        came = dict(zip(new.streams, new.rows[-1].tolist(), strict=True))
        behind = self._behind(float(mean[0].sum()) / period_s, len(np.unique(after)))
        return AdmissionPlan(
            method=self.options.method,
            since=datetime.fromtimestamp((course.outlook.now + 1) * period_s, UTC),
            period_s=period_s,
            capacity=course.capacity / period_s,
            nodes=names,
            stream=streams,
            before=tuple(left.tolist()),
            after=tuple(after.tolist()),
            forecast=tuple(_rate(course.newest.get(name), period_s) for name in streams),
            came=tuple(came[name] / period_s for name in streams),
            total_forecast=tuple(rows / period_s for rows in foreseen.forecast),
            total_came=tuple(rows / period_s for rows in foreseen.came),
            error=foreseen.error,
            total_error=foreseen.total_error,
            loads=_loads(after, mean / period_s, count),
            holds=holds,
            least_nodes=least,
            optimal=course.optimal,
            oversized=tuple(name for name, rows in zip(streams, mean[0], strict=True) if rows > course.capacity),
            left=tuple(sorted(set(before) - set(streams))),
            released=tuple(names[i] for i in sorted(entered - set(after.tolist()))),
            query=behind.query if behind else None,
            merge=behind.merge if behind else None,
            acts=bool(self.options.ingest),
        )

    def _nodes(self, course: Course, before: Ints, entered: AbstractSet[int]) -> tuple[tuple[str, ...], Ints]:
        """Return the names of the nodes, and that of each stream as an index."""
        tables = self.options.ingest
        if not tables:
            count = max([int(course.node.max(initial=NEW)), *entered], default=NEW) + 1
            return tuple(f"ingest-{i + 1}" for i in range(count)), course.node
        course.node = onto_tables(course.node, before, len(tables), course.outlook.ahead(1)[0][0])
        return tables, course.node

    def _behind(self, rate: float, split: int) -> sizing.Workers | None:
        """Return the workers of the stages for a rate, rows a second."""
        known = self.options.sizing
        return sizing.workers(rate, split, known.costs, known.headroom, known.latency_s) if known else None


def _changes(told: AdmissionPlan, current: Deployment) -> tuple[Change, ...]:
    """Return the plan as changes of the Deployment; streams that have left are forgotten."""
    app = min(current.apps)
    here = zip(told.stream, told.before, told.after, strict=True)
    moved = [Change(app, INGEST, before, after, stream=stream) for stream, before, after in here if before != after]
    gone = [Change(app, INGEST, current.ingest[stream], NOWHERE, stream=stream) for stream in told.left]
    return (*moved, *gone)


def _reason(told: AdmissionPlan) -> str:
    if told.redirections:
        return MOVES
    if told.admitted:
        return FIRST
    return RELEASES if told.released else STAY


def _loads(node: Ints, mean: Floats, nodes: int) -> tuple[tuple[float, ...], ...]:
    """Return the expected load of each node in each period from rates of shape (H, S)."""
    found = np.zeros((nodes, len(mean)))
    np.add.at(found, node, mean.T)
    return tuple(tuple(row) for row in found.tolist())


def _rate(rows: float | None, period_s: int) -> float | None:
    return None if rows is None else rows / period_s

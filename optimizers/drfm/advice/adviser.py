"""drfm in the loop: at which ingest node each input stream is to enter, as advice.

Ingest nodes cannot be started yet, nor streams redirected between them, so a plan is made for nodes that the spec gives
a capacity. What was advised is remembered and counts as done: the next plan starts from there, as if the advice had
been followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np

from include.contracts.admission import ADVISER, AdmissionPlan, StreamCounts
from include.contracts.decision import Memory, Proposal
from include.contracts.deployment import Deployment
from include.contracts.errors import MillraceError
from include.contracts.signals import Signals
from optimizers.drfm import sizing
from optimizers.drfm.advice import memory as memories
from optimizers.drfm.advice.counted import Counted, counted, number
from optimizers.drfm.advice.course import Course
from optimizers.drfm.advice.options import Options
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
            course = Course(self.options, counts.period_s, kept, new.first)
            course.take_in(new)
            told = self._told(counts, new, course, memories.nodes(kept))
        except MillraceError as error:
            return Proposal(ADVISER, (), BAD_SIGNALS, f"Streams stay: {error}"), memory
        predicted = {"ingest_nodes": float(told.split), "ingest_load_ratio": told.highest_load}
        proposal = Proposal(ADVISER, (), _reason(told), sentence(told), predicted, admission=told)
        return proposal, memories.write(course.kept(counts.period_s))

    def _told(self, counts: StreamCounts, new: Counted, course: Course, before: Mapping[str, int]) -> AdmissionPlan:
        period_s, streams, after = counts.period_s, course.streams, course.node
        foreseen = course.foreseen
        left = np.array([before.get(name, NEW) for name in streams], dtype=np.intp)
        entered = set(before.values())
        count = max([int(after.max(initial=NEW)), *entered], default=NEW) + 1
        mean, _ = course.outlook.ahead(max(self.options.ahead, LEAST_AHEAD))
        holds, least = course.bounds(mean)
        came = dict(zip(new.streams, new.rows[-1].tolist(), strict=True))
        behind = self._behind(float(mean[0].sum()) / period_s, len(np.unique(after)))
        return AdmissionPlan(
            method=self.options.method,
            since=datetime.fromtimestamp((course.outlook.now + 1) * period_s, UTC),
            period_s=period_s,
            capacity=course.capacity / period_s,
            nodes=tuple(f"ingest-{i + 1}" for i in range(count)),
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
            released=tuple(f"ingest-{i + 1}" for i in sorted(entered - set(after.tolist()))),
            query=behind.query if behind else None,
            merge=behind.merge if behind else None,
        )

    def _behind(self, rate: float, split: int) -> sizing.Workers | None:
        """Return the workers of the stages for a rate, rows a second."""
        known = self.options.sizing
        return sizing.workers(rate, split, known.costs, known.headroom, known.latency_s) if known else None


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

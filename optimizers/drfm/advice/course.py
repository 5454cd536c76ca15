"""Taking in periods, one after another, as if each had been looked at when it was over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from include.model.errors import MillraceError
from optimizers.drfm.admission import Admission
from optimizers.drfm.advice.counted import Counted
from optimizers.drfm.advice.foreseen import Foreseen
from optimizers.drfm.advice.memory import Kept
from optimizers.drfm.advice.options import TOLD, Options
from optimizers.drfm.horizon.board import Board
from optimizers.drfm.metadata.stream import Metadata
from optimizers.drfm.outlook import Outlook
from optimizers.drfm.problem import NEW, Floats, Ints, Problem

NEVER = np.iinfo(np.intp).min


class Course:
    """Admission from where it was left.

    Args:
        options: The owner's.
        period_s: Length of a period, seconds.
        kept: What was kept; None to begin.
        first: Number of the first period that comes now. Where some were missed before it, what streams do is learned
            anew; where they enter stays.
    """

    def __init__(self, options: Options, period_s: int, kept: Kept | None, first: int) -> None:
        self.capacity = options.usable * period_s
        told = {name: _a_period(m, period_s) for name, m in options.streams.items() if options.method in TOLD}
        self.outlook = Outlook(self.capacity, told, options.forecaster, options.outlook)
        self._admission = Admission(self.outlook, options.planner(), self.capacity, options.ahead)
        self._quiet = options.quiet
        self.foreseen, self.optimal = Foreseen(), False
        self.newest: Mapping[str, float] = {}
        self.streams: tuple[str, ...] = ()
        self.node, self.seen = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
        if kept is None:
            return
        self.streams, self.node, self.seen = kept.outlook.streams, kept.node, kept.seen
        if kept.since == first:
            with suppress(MillraceError):  # it was kept by another forecaster
                self.outlook.restore(kept.outlook)
                self.foreseen = kept.foreseen

    def bounds(self, mean: Floats) -> tuple[int, int]:
        """Return for how many periods nodes stay within capacity, and the fewest that any plan needs for as long.

        Args:
            mean: Expected rates of the next periods, shape (H, S).
        """
        none, sizes = np.zeros_like(mean), np.zeros(len(self.node))
        mean = np.minimum(mean, self.capacity)  # what is beyond comes whatever the plan
        count = int(self.node.max(initial=NEW)) + 1
        board = Board(Problem(self.node, sizes, mean, none, self.capacity, count, sizes), 0.0)
        holds = int(board.windows().min(initial=len(mean)))
        return holds, board.least_nodes(max(holds, 1))

    def take_in(self, new: Counted) -> None:
        """Take in periods whose streams include all that are known."""
        node, seen = (np.full(len(new.streams), v, dtype=np.intp) for v in (NEW, NEVER))
        at = _places(self.streams, new.streams)
        node[at], seen[at] = self.node, self.seen
        names = np.array(new.streams, dtype=object)
        for period, rows in enumerate(new.rows, new.first):
            seen[rows > 0] = period
            node[seen <= period - self._quiet] = NEW
            here = np.flatnonzero(seen > period - self._quiet)
            known = self.outlook.streams
            self._judge(known, rows[_places(known, new.streams)])
            streams = tuple(names[here].tolist())
            plan = self._admission.look(period + 1, streams, rows[here], node[here], int(node.max(initial=NEW)) + 1)
            node[here], self.optimal = plan.node, plan.optimal
            self.streams = streams
        here = _places(self.streams, new.streams)
        self.node, self.seen = node[here], seen[here]

    def _judge(self, streams: tuple[str, ...], came: Floats) -> None:
        """Compare a period with what was foreseen of it, shape (S,)."""
        forecast = self.outlook.expected
        self.newest = dict(zip(streams, forecast.tolist(), strict=True))
        if streams:
            self.foreseen = self.foreseen.add(forecast, came)

    def kept(self, period_s: int) -> Kept:
        """Return what the next look needs.

        Args:
            period_s: Length of a period, seconds.
        """
        since, snapshot = self.outlook.now + 1, self.outlook.snapshot()
        return Kept(period_s, since, self.node, self.seen, snapshot, self.foreseen)


def _places(names: Sequence[str], among: Sequence[str]) -> Ints:
    """Return the index of each name among others, which are in alphabetical order and hold all of them."""
    found: Ints = np.searchsorted(np.array(among, dtype=object), np.array(names, dtype=object))
    return found


def _a_period(told: Metadata, period_s: int) -> Metadata:
    """Return what is told with rates a period in place of rates a second."""
    rates = {name: getattr(told, name) for name in ("minimum", "maximum", "average", "slope")}
    return replace(told, **{name: rate * period_s for name, rate in rates.items() if rate is not None})

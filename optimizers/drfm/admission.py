"""Input admission period by period: what is seen becomes an outlook, the outlook a problem, the problem a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from optimizers.drfm.outlook import Outlook
from optimizers.drfm.problem import Floats, Ints, Plan, Problem

Planner = Callable[[Problem], Plan]
"""A way to assign streams: a paper's strategy, or :func:`horizon.planner.plan`."""


class Admission:
    """Assigns the streams of a pipeline to its split nodes, look after look.

    Args:
        outlook: What is expected of the streams.
        planner: Who assigns them.
        capacity: Of a node, > 0.
        ahead: Periods that the planner is told of, >= 1.
    """

    def __init__(self, outlook: Outlook, planner: Planner, capacity: float, ahead: int) -> None:
        self.outlook, self._planner, self._capacity, self._ahead = outlook, planner, capacity, ahead
        self.problem: Problem | None = None

    def look(
        self,
        period: int,
        streams: Sequence[str],
        rate: Floats,
        node: Ints,
        nodes: int,
        latency_s: Floats | None = None,
    ) -> Plan:
        """Take in a period and return where streams are to enter from now on.

        Args:
            period: Number of the period that begins.
            streams: Ids of those that are connected, S of them; there may be none.
            rate: Rate of each in the period that ended, shape (S,); NaN for those that just joined.
            node: Node of each, shape (S,); -1 for those that just joined.
            nodes: N.
            latency_s: Queueing delay of each node, shape (N,); None if not measured.

        Raises:
            MillraceError: If shapes do not fit, an id comes twice, or a node does not exist.
        """
        self.outlook.observe(period - 1, streams, rate)
        mean, variance = self.outlook.ahead(self._ahead)
        typical = self.outlook.typical()
        self.problem = Problem(node, typical, mean, variance, self._capacity, nodes, np.maximum(typical, 0), latency_s)
        return self._planner(self.problem)

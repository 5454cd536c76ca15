"""Algorithm 1: overloaded nodes give streams away, the others take them and the new ones, best fit decreasing.

Reference: [DRFM] Section 2.2. What the text leaves open: a stream that is alone on a node stays; ties go to the lower
number; nodes that could be empty are drained afterwards (:mod:`consolidation`), without which nodes only ever grow.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from optimizers.drfm.numbering import matched
from optimizers.drfm.problem import Bools, Floats, Plan, Problem, oversized
from optimizers.drfm.strategies.bfd import ROUNDING, pack
from optimizers.drfm.strategies.consolidation import drain
from optimizers.drfm.strategies.options import Options
from optimizers.drfm.strategies.parts import Accepts, Overloaded, Pick, Sizes


@dataclass(frozen=True)
class Strategy:
    """A way to fill in Algorithm 1.

    Attributes:
        name: For people.
        sizes: PlacementOrder, and what a node's load is the sum of.
        overloaded: isOverloaded.
        pick: pickStreamsToMove.
        accepts: acceptsNewStream.
        anew: Overloaded nodes give all their streams away.
        options: Knobs.
    """

    name: str
    sizes: Sizes
    overloaded: Overloaded
    pick: Pick
    accepts: Accepts
    anew: bool = False
    options: Options = field(default_factory=Options)

    def plan(self, problem: Problem) -> Plan:
        """Return where every stream is to enter."""
        options = self.options
        sizes = self.sizes(problem, options)
        sums = problem.sums(sizes)
        over = self.overloaded(problem, options, sums)
        taking = np.flatnonzero(~over & self.accepts(problem, options, sums))
        moving = problem.placed if self.anew else self._picked(problem, sizes, sums, over)
        items = np.flatnonzero(moving | ~problem.placed)
        capacity = options.full * problem.capacity
        node = problem.node.copy()
        node[items] = pack(sizes[items], capacity - sums[taking], taking, capacity, problem.nodes)
        if self.anew:
            node = matched(node - problem.nodes, problem.node, problem.nodes)
        else:
            node = drain(problem, node, sizes, over, options)
        return Plan(node, oversized(problem))

    def _picked(self, problem: Problem, sizes: Floats, sums: Floats, over: Bools) -> Bools:
        """Say which streams leave overloaded nodes, the most urgent first, until the rest fits."""
        picked = np.zeros(problem.streams, dtype=bool)
        held = problem.placed.copy()
        held[problem.placed] = over[problem.node[problem.placed]]
        index = np.flatnonzero(held)
        if not len(index):
            return picked
        order = index[np.lexsort((-self.pick(problem, self.options)[index], problem.node[index]))]
        node = problem.node[order]
        gone = np.cumsum(sizes[order]) - sizes[order]
        first = np.flatnonzero(np.r_[True, node[1:] != node[:-1]])
        gone -= np.repeat(gone[first], np.diff(np.r_[first, len(node)]))
        last = np.r_[node[1:] != node[:-1], True]
        limit = self.options.full * problem.capacity * (1 + ROUNDING)
        picked[order[(sums[node] - gone > limit) & ~last]] = True
        return picked

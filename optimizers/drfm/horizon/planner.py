"""Our assigner: vector packing over a horizon, with few redirections.

1. New streams are placed, opposites together.
2. Nodes that will be overloaded are relieved.
3. Nodes that are worth emptying are emptied.
4. Where a packing from nothing needs fewer nodes, and that is worth its redirections, it is taken.
5. With ``polish``, CP-SAT looks for a better one.

Reference: ours, within the problem of [DRFM] Section 2.
"""

from __future__ import annotations

from optimizers.drfm.horizon.board import Board
from optimizers.drfm.horizon.consolidation import consolidate
from optimizers.drfm.horizon.options import Options
from optimizers.drfm.horizon.placement import place_new
from optimizers.drfm.horizon.repack import repacked
from optimizers.drfm.horizon.repair import repair
from optimizers.drfm.problem import Plan, Problem, oversized


def plan(problem: Problem, options: Options | None = None) -> Plan:
    """Return where every stream is to enter.

    Args:
        problem: The period's problem.
        options: Knobs.
    """
    options = options or Options()
    board = Board(problem, options.margin, options.catch_up_s)
    place_new(board, options)
    repair(board, options)
    consolidate(board, options)
    found = Plan(repacked(problem, board, options), oversized(problem))
    if not options.polish:
        return found
    from optimizers.drfm.horizon.exact import polish  # OR-Tools takes long to import

    return polish(problem, found, options)

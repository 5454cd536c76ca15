"""Our assigner: vector packing over a horizon, with few redirections.

1. New streams are placed, opposites together (:mod:`insertion`).
2. Nodes that will be overloaded are relieved (:mod:`overload_relief`).
3. Nodes are emptied if that is worth the redirections: their streams fit elsewhere for the next D periods, and
   streams x price <= D. Long D are tried before short ones (:mod:`consolidation`). Nodes that run even without streams
   are not emptied, and get streams before others start.
4. A packing from scratch is used if the node-periods that it saves over the horizon are worth its redirections. If
   streams came one by one, or their opposites were not known then, the placement may be so bad that emptying single
   nodes cannot fix it.
5. With ``polish``, CP-SAT looks for a better plan (:mod:`optimal_plan`).

Reference: ours, within the problem of [DRFM] Section 2. The paper never releases a node; its PAR packs from scratch
every period, at any cost.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from millrace.optimizers.arrays import Ints
from millrace.optimizers.drfm.consolidation import consolidate
from millrace.optimizers.drfm.insertion import insert_new
from millrace.optimizers.drfm.overload_relief import relieve_overloads
from millrace.optimizers.drfm.problem import NEW, Plan, Problem, oversized, renumber
from millrace.optimizers.drfm.stream_placement import HorizonOptions, StreamPlacement, catch_up_rate


def plan(problem: Problem, options: HorizonOptions | None = None) -> Plan:
    """Return the node of every stream.

    Args:
        problem: The period's problem.
        options: The options.
    """
    options = options or HorizonOptions()
    placement = StreamPlacement(problem, options.margin, options.catch_up_s)
    insert_new(placement, options)
    relieve_overloads(placement, options)
    consolidate(placement, options)
    result = Plan(_repack(problem, placement, options), oversized(problem))
    if not options.polish:
        return result
    from millrace.optimizers.drfm.optimal_plan import polish  # OR-Tools takes long to import

    return polish(problem, result, options)


def _repack(problem: Problem, placement: StreamPlacement, options: HorizonOptions) -> Ints:
    """Return the better of a placement and a packing from scratch, shape (S,)."""
    have, nodes = len(placement.ending), max(problem.running, default=NEW) + 1
    if problem.streams > options.pair_limit or have <= placement.least_ending(placement.ahead):
        return placement.node
    fresh = StreamPlacement(
        replace(problem, node=np.full(problem.streams, NEW), nodes=nodes, latency_s=None), options.margin
    )
    insert_new(fresh, options)
    saved = have - len(fresh.ending)
    node = renumber(fresh.node, placement.node, len(placement.count), problem.running)
    moves = int(((node != problem.node) & problem.placed).sum())
    less = moves - int(((placement.node != problem.node) & problem.placed).sum())
    pays = saved > 0 and less * options.move_price <= saved * placement.ahead
    return node if pays and _catches_up(problem, node, options) else placement.node


def _catches_up(problem: Problem, node: Ints, options: HorizonOptions) -> bool:
    """Return whether nodes can work off their queues, which a packing from scratch ignores."""
    load = np.bincount(node, weights=problem.mean[0], minlength=problem.nodes)
    shared = np.bincount(node, minlength=problem.nodes)[: problem.nodes] > 1
    over = load[: problem.nodes] + catch_up_rate(problem, options.catch_up_s) > problem.capacity
    return not (over & shared).any()

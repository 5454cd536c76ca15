"""From the load of a join to how its blocks and its shedding should be set."""

from __future__ import annotations

from include.model.join import JoinSettings
from optimizers.esj.block_size import block_size, cost, fits
from optimizers.esj.load import Load
from optimizers.esj.options import OFFERED, Options
from optimizers.esj.shedding import shed_factor, stepped


def chosen(load: Load, join: JoinSettings, workers: int, present: int, capacity: int, options: Options) -> JoinSettings:
    """Return the settings of a join that is to have so many workers.

    Args:
        load: What was measured.
        join: The settings so far.
        workers: m that is wanted, >= 1.
        present: m in force, >= 1.
        capacity: W, >= 2.
        options: The policy.
    """
    # those that are wanted may never come, and those in force may leave: both have to keep what is there
    block = _block(load.kept / min(workers, present), join.block, capacity, options)
    # added workers keep the very next tuples: to shed beside that would lose some for nothing until the next look
    relief = min(1.0, present / workers) if options.trigger == OFFERED else 1.0
    factor = shed_factor(load.shed_by * relief, options.thresholds.tau2, options.base, options.shedding)
    return JoinSettings(workers, block, stepped(factor, join.shed, options.shed_step))


def _block(held: float, before: int, capacity: int, options: Options) -> int:
    """Return the best block size, or the one so far where it fits and is nearly as good.

    One that a growing load has no room for any more gives way to half of what fits, or it would have to at each look.
    A load that all but goes away leaves it as it is: few messages are saved, and more come when the load comes back.
    """
    best = max(1, block_size(held, capacity, options.alpha, options.block_size).tuples)
    if not fits(before, held, capacity):
        return max(1, best // 2)
    if best < before and held <= options.thresholds.tau0 * capacity:
        return before
    gain = cost(before, held, options.alpha) / cost(best, held, options.alpha) - 1
    return best if gain > options.block_margin else before

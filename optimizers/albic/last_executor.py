"""Relieve the executor that finishes a stage last, by single moves and swaps, given Spark's order of tasks.

A plan that balances the sums of loads does not order an executor's tasks. Spark starts them by rising partition: a long
task with a high number starts only after all before it have started. It is best among few tasks, or among tasks with
even higher numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from millrace.model.placement import makespan_s
from millrace.optimizers.arrays import Bools, Floats, Ints

PARTNERS = 8
"""Executors that are tried per step, the earliest to finish first."""
LEAST_GAIN = 1e-9


@dataclass(frozen=True)
class Stage:
    """A stage's groups and the changes that are allowed; arrays with one value per group are by rising partition.

    Attributes:
        load: Seconds that a group keeps a core of an executor of speed 1 busy, shape (M,).
        origin: Executor that each group is on and moves from, shape (M,); -1 without one, which costs nothing.
        movable: Groups that may move, shape (M,).
        cost: Price of a move, shape (M,).
        budget: Limit of the cost of all moves from ``origin``.
        speed: Speed of each executor, shape (N,).
        kept: Executors that may get groups, shape (N,).
        cores: Cores per executor.
        effort: Most tasks to sort: with a clock, the same input could give different plans.
    """

    load: Floats
    origin: Ints
    movable: Bools
    cost: Floats
    budget: float
    speed: Floats
    kept: Bools
    cores: int
    effort: int


class _Step(NamedTuple):
    latest_s: float
    given: int
    taken: int | None
    partner: int


def relieve(stage: Stage, start: Ints) -> Ints:
    """Return a placement that takes no longer than ``start``, shape (M,).

    Args:
        stage: The stage.
        start: Executor of each group, none of them marked or missing, within the budget.
    """
    node, tasks = start.copy(), [np.flatnonzero(start == executor).tolist() for executor in range(len(stage.speed))]
    ready_s = [_ready_s(stage, executor, of_executor) for executor, of_executor in enumerate(tasks)]
    effort = stage.effort
    while effort > 0:
        last = int(np.argmax(ready_s))
        step = None
        for candidate, work in _steps(stage, node, tasks, ready_s, last):
            effort -= work
            if step is None or candidate.latest_s < step.latest_s:
                step = candidate
            if effort <= 0:
                break
        if step is None or step.latest_s > ready_s[last] * (1 - LEAST_GAIN):
            break
        _take(node, tasks, last, step)
        for executor in (last, step.partner):
            ready_s[executor] = _ready_s(stage, executor, tasks[executor])
    return node


def _steps(
    stage: Stage, node: Ints, tasks: Sequence[list[int]], ready_s: Sequence[float], last: int
) -> Iterator[tuple[_Step, int]]:
    """Yield what the last executor can give away or swap, and the number of tasks sorted to find out."""
    spare = stage.budget - float(stage.cost[(node != stage.origin) & (stage.origin >= 0)].sum())
    first = [w for w in np.argsort(ready_s, kind="stable").tolist() if stage.kept[w] and w != last][:PARTNERS]
    for partner in first:
        swaps = [None, *(group for group in tasks[partner] if stage.movable[group])]
        for given in (group for group in tasks[last] if stage.movable[group]):
            for taken in swaps:
                back = 0.0 if taken is None else _price(stage, node, taken, last)
                if _price(stage, node, given, partner) + back > spare:
                    continue
                own = _swapped(tasks[last], given, taken)
                other = _swapped(tasks[partner], taken, given)
                latest_s = max(_ready_s(stage, last, own), _ready_s(stage, partner, other))
                yield _Step(latest_s, given, taken, partner), len(own) + len(other)


def _price(stage: Stage, node: Ints, group: int, to: int) -> float:
    """Return the added cost of a group on another executor compared with its current one."""
    origin = stage.origin[group]
    if origin < 0:
        return 0.0
    return float(stage.cost[group]) * (int(to != origin) - int(node[group] != origin))


def _swapped(tasks: Sequence[int], without: int | None, more: int | None) -> list[int]:
    return sorted([group for group in tasks if group != without] + ([] if more is None else [more]))


def _take(node: Ints, tasks: list[list[int]], last: int, step: _Step) -> None:
    tasks[last] = _swapped(tasks[last], step.given, step.taken)
    tasks[step.partner] = _swapped(tasks[step.partner], step.taken, step.given)
    node[step.given] = step.partner
    if step.taken is not None:
        node[step.taken] = last


def _ready_s(stage: Stage, executor: int, tasks: Sequence[int]) -> float:
    return makespan_s(stage.load[tasks].tolist() if tasks else (), stage.cores) / float(stage.speed[executor])

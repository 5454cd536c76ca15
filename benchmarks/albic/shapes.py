"""The clusters and jobs on which collocation is measured, made up by the paper's rules or from flights.

Reference:
    [ALBIC] Section 5.1 for loads (a mean of 50 points a node, groups within 5 % of one another; each period the load
    of 20 % of the nodes changes by up to 2 %), 5.3 for obtainable collocation, 5.4 for Real Jobs 1 to 4.

A row that crosses nodes costs either end as much as to process it: a job that only hands rows on does half the work
once all are collocated, as Real Job 2 does in the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.simulation.placement import Cluster, Floats, Ints, PeriodTraffic, PlacementPlant

MEAN = 50.0
"""Points a node before anything is collocated."""
SPREAD = 0.05
CHANGED_NODES, CHANGE = 0.2, 0.02


@dataclass(frozen=True)
class Shape:
    """A scenario that a method runs on.

    Attributes:
        name: Of the scenario.
        budget: Groups that may move a period.
        periods: How many.
        plant: Makes the cluster for a seed.
        obtainable: Highest collocation there is, 0..1; NaN where nobody knows.
    """

    name: str
    budget: float
    periods: int
    plant: Callable[[int], PlacementPlant]
    obtainable: float = float("nan")


@dataclass(frozen=True)
class Job:
    """Groups and who passes rows to whom, for one row a second that each group handles.

    Attributes:
        operator: Of each group, shape (K,).
        producer: Shape (E,).
        consumer: Shape (E,).
        share: Rows a second, shape (E,).
    """

    operator: Ints
    producer: Ints
    consumer: Ints
    share: Floats


class Wandering:
    """Traffic of a made-up job: loads that wander a little from period to period.

    Args:
        job: The job.
        nodes: N, over which the groups are laid evenly at the beginning.
        node: That placement, shape (K,): the nodes whose load changes are those of the beginning.
        seed: Of the luck.
    """

    def __init__(self, job: Job, nodes: int, node: Ints, seed: int) -> None:
        self._job, self._node, self._nodes = job, node, nodes
        self._rng = np.random.default_rng([seed, 1])
        groups = len(job.operator)
        self._factors = [1 + self._rng.uniform(-SPREAD, SPREAD, groups)]
        sent = np.bincount(job.producer, job.share, groups)
        received = np.bincount(job.consumer, job.share, groups)
        self._work = np.maximum(sent, received)
        self._point = MEAN * nodes / float((self._work + sent + received).sum())

    def __call__(self, period: int) -> PeriodTraffic:
        """Return what happens in a period."""
        while len(self._factors) <= period:
            changed = self._rng.permutation(self._nodes)[: round(CHANGED_NODES * self._nodes)]
            by_node = np.ones(self._nodes)
            by_node[changed] += self._rng.uniform(-CHANGE, CHANGE, len(changed))
            self._factors.append(self._factors[-1] * by_node[self._node])
        job, factor = self._job, self._factors[period]
        rate = job.share * (factor[job.producer] + factor[job.consumer]) / 2
        groups = len(job.operator)
        crossing = np.bincount(job.producer, rate, groups) + np.bincount(job.consumer, rate, groups)
        load = (self._work * factor + crossing) * self._point
        return PeriodTraffic(load, job.producer, job.consumer, rate, rate * self._point)


def chained(operators: int, per_operator: int) -> Job:
    """Return a chain of operators, each group of which passes all it has to one group of the next."""
    groups = np.arange(operators * per_operator)
    producer = groups[:-per_operator]
    return Job(groups // per_operator, producer, producer + per_operator, np.ones(len(producer)))


def paired(operators: int, per_operator: int, one_to_one: float, seed: int = 0) -> Job:
    """Return pairs of operators; some groups of the first pass all to one group of the second, the others to everyone.

    Everyone is every group of any second operator without a partner of its own. Were it those of one operator only,
    they and their producers would fit on a node or two, and far more could be collocated than the one-to-one part.

    Args:
        operators: How many, even.
        per_operator: Groups of each.
        one_to_one: Share of groups that pass all to one, 0..1: the share of rows that can stay within nodes, and a
            little by chance.
        seed: Which these are.
    """
    rng = np.random.default_rng([seed, 2])
    groups = np.arange(operators * per_operator)
    operator = groups // per_operator
    producers = groups[operator % 2 == 0]
    alone = np.zeros(len(producers), dtype=bool)
    alone[rng.permutation(len(producers))[: round(one_to_one * len(producers))]] = True
    ends: list[tuple[Ints, Ints, Floats]] = [
        (producers[alone], producers[alone] + per_operator, np.ones(int(alone.sum())))
    ]
    spread = producers[~alone]
    if len(spread):
        to = spread + per_operator
        ends.append((np.repeat(spread, len(to)), np.tile(to, len(spread)), np.full(len(to) ** 2, 1 / len(to))))
    producer, consumer, share = (np.concatenate([e[i] for e in ends]) for i in range(3))
    return Job(operator, producer.astype(np.intp), consumer.astype(np.intp), share)


def made_up(job: Job, nodes: int, seed: int, *, apart: bool = False) -> PlacementPlant:
    """Return a cluster with a made-up job, groups laid out evenly.

    Args:
        job: The job.
        nodes: N.
        seed: Of the placement and the loads.
        apart: Begin without a single collocated pair, as far as one can.
    """
    rng = np.random.default_rng([seed, 3])
    groups = len(job.operator)
    node = np.empty(groups, dtype=np.intp)
    node[rng.permutation(groups)] = np.arange(groups) % nodes
    if apart:
        node = _apart(job, node, rng)
    cluster = Cluster(job.operator, node, np.ones(nodes), np.ones(groups), move_points=MOVE_POINTS)
    return PlacementPlant(cluster, Wandering(job, nodes, node, seed))


MOVE_POINTS = 0.5
"""Points that a move of one group costs either node."""


def _apart(job: Job, node: Ints, rng: np.random.Generator) -> Ints:
    """Swap groups of one operator until no pair is together."""
    for _ in range(100):
        together = np.flatnonzero(node[job.producer] == node[job.consumer])
        if not len(together):
            break
        for edge in together:
            k = job.consumer[edge]
            others = np.flatnonzero((job.operator == job.operator[k]) & (node != node[k]))
            other = rng.choice(others)
            node[k], node[other] = node[other], node[k]
    return node

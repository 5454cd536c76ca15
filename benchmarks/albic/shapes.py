"""Clusters and jobs for measuring collocation, synthetic by the paper's rules or made from flights.

Reference:
    [ALBIC] Section 5.1 for loads (a mean of 50 points per node, groups within 5 % of each other; each period the load
    of 20 % of the nodes changes by up to 2 %), 5.3 for obtainable collocation, 5.4 for Real Jobs 1 to 4.

Fetching a row from another node costs its receiver as much as processing two. A job that only passes rows on therefore
does half the work once everything is collocated, like Real Job 2 in the paper. Deviation: in the paper both ends pay.
In Spark the sender writes its rows to disk wherever they go, and only the receiver waits for the network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.simulation.placement import Cluster, Floats, Ints, PeriodTraffic, PlacementPlant

MEAN = 50.0
"""Points per node before anything is collocated."""
SPREAD = 0.05
CROSSING = 2.0
"""Cost of fetching a row from another node, in rows processed."""
CHANGED_NODES, CHANGE = 0.2, 0.02


@dataclass(frozen=True)
class Shape:
    """A scenario.

    Attributes:
        name: Name of the scenario.
        budget: Groups that may move per period.
        periods: Number of periods.
        plant: Makes the cluster for a seed.
        obtainable: Highest possible collocation, 0..1; NaN if unknown.
    """

    name: str
    budget: float
    periods: int
    plant: Callable[[int], PlacementPlant]
    obtainable: float = float("nan")


@dataclass(frozen=True)
class Job:
    """Groups and the rows between them, at one row per second per group.

    Attributes:
        operator: Operator of each group, shape (K,).
        producer: Shape (E,).
        consumer: Shape (E,).
        share: Rows per second, shape (E,).
    """

    operator: Ints
    producer: Ints
    consumer: Ints
    share: Floats


class Wandering:
    """Traffic of a synthetic job whose loads drift a little from period to period.

    Args:
        job: The job.
        nodes: N; the groups are spread evenly over them at first.
        node: The first placement, shape (K,). It stays the one that decides which groups' load changes together.
        seed: Seed of the drift.
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
        """Return the traffic of a period."""
        while len(self._factors) <= period:
            changed = self._rng.permutation(self._nodes)[: round(CHANGED_NODES * self._nodes)]
            by_node = np.ones(self._nodes)
            by_node[changed] += self._rng.uniform(-CHANGE, CHANGE, len(changed))
            self._factors.append(self._factors[-1] * by_node[self._node])
        job, factor = self._job, self._factors[period]
        rate = job.share * (factor[job.producer] + factor[job.consumer]) / 2
        groups = len(job.operator)
        crossing = CROSSING * rate
        load = (self._work * factor + np.bincount(job.consumer, crossing, groups)) * self._point
        return PeriodTraffic(load, job.producer, job.consumer, rate, crossing * self._point)


def chained(operators: int, per_operator: int) -> Job:
    """Return a chain of operators; each group sends all its rows to one group of the next operator."""
    groups = np.arange(operators * per_operator)
    producer = groups[:-per_operator]
    return Job(groups // per_operator, producer, producer + per_operator, np.ones(len(producer)))


def paired(operators: int, per_operator: int, one_to_one: float, seed: int = 0) -> Job:
    """Return pairs of operators; some groups of the first send all rows to one group of the second, the others to all.

    "All" means every group of the second operators that has no partner. If it were only one operator's groups, they and
    their producers would fit on a node or two, and far more than the one-to-one part could be collocated.

    Args:
        operators: Number of operators, even.
        per_operator: Groups per operator.
        one_to_one: Share of groups that send all rows to one group, 0..1. This share of rows can stay within nodes, and
            a little more by chance.
        seed: Selects these groups.
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
    """Return a cluster with a synthetic job, groups spread evenly.

    Args:
        job: The job.
        nodes: N.
        seed: Seed of the placement and the loads.
        apart: Start with no collocated pair, as far as possible.
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
"""Points that moving one group costs each of the two nodes."""


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

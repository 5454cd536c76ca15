"""State partitions, ALBIC's key groups: what each of them costs, and on which worker a plan would have it.

A key group is what moves as one: one partition of the stateful operators that a stage runs. A worker is one of the
app's executors, by number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heapreplace

STATEFUL_BATCH = "stateful_batch_s"
"""The key under which a Decision predicts, and a Reconfiguration achieves, the time of a batch's stateful stages."""

OTHER_HOT_KEYS = 0.2
"""Share of the load that is on other partitions than before, from which other keys are hot."""


def makespan_s(tasks_s: Iterable[float], cores: int) -> float:
    """Return how long an executor takes for the tasks of a stage, seconds.

    Spark starts them by rising partition, each on the core that is free first. So a long one with a high number begins
    late, however little there is to do in all.

    Args:
        tasks_s: Their times by rising partition, seconds.
        cores: Tasks that the executor runs at once, >= 1.
    """
    free_s = [0.0] * cores
    for task_s in tasks_s:
        heapreplace(free_s, free_s[0] + task_s)
    return max(free_s)


def other_keys_are_hot(former: Sequence[float], present: Sequence[float]) -> bool:
    """Say whether much of the load is on other groups than it was; it is not where one of both is nothing.

    Args:
        former: Load of each group, shape (n,), of any unit.
        present: Its load now, shape (n,).
    """
    was, now = sum(former), sum(present)
    if not was > 0 or not now > 0:
        return False
    elsewhere = sum(abs(a / was - b / now) for a, b in zip(former, present, strict=True)) / 2
    return elsewhere > OTHER_HOT_KEYS


@dataclass(frozen=True)
class Flows:
    """Pairs of key groups of which the second gets much of its input from the first, as columns of equal length.

    A group that gets as much from everybody is in no pair: it is nowhere nearer to its input than elsewhere.

    Attributes:
        producer: Index of the group that emits.
        consumer: Index of the group that receives.
        bytes: What goes from one to the other in a batch, > 0.
        s_per_mb: What a MB costs the receiver more if it comes from another executor, seconds; None if the figures do
            not tell.
    """

    producer: tuple[int, ...] = ()
    consumer: tuple[int, ...] = ()
    bytes: tuple[int, ...] = ()
    s_per_mb: float | None = None


@dataclass(frozen=True)
class Speeds:
    """Workers that are surely faster or slower than the others, as columns of equal length.

    Attributes:
        worker: Number of the worker.
        speed: What it does in the time in which the mean worker does 1, > 0.
    """

    worker: tuple[int, ...] = ()
    speed: tuple[float, ...] = ()

    def of(self, worker: int) -> float:
        """Return the speed of a worker; 1 for one that is not known to be another."""
        return dict(zip(self.worker, self.speed, strict=True)).get(worker, 1.0)


@dataclass(frozen=True)
class KeyGroups:
    """What each key group cost of late, as columns of equal length, by operator and rising partition.

    Missing is None, never 0.

    Attributes:
        app: Whose they are.
        since: Begin of the span (UTC).
        until: Its end: the newest batch that was measured.
        batches: Batches that were measured, >= 1.
        operator: The stateful operators of each group, see :func:`millrace.model.deployment.operator_name`.
        partition: Number of the partition.
        worker: Where it ran last; -1 where that executor is gone.
        busy_s: Time that a batch keeps a core of the mean worker busy with it, seconds, waits included: the median
            over batches.
        busy_error_s: Standard error of that, seconds.
        rows: Rows that it got in a batch, the median over batches.
        state_bytes: What an executor would have to load to take it over; None where it was not measured.
        memory_bytes: Memory that its state takes on an executor; None where it was not measured; empty where none was.
        remote_ratio: Share of all bytes that came from another executor, 0..1; None where nothing was exchanged.
        batch_s: Time of a whole batch, what keeps no state included, seconds: the median; None where it is not known.
        flows: What groups pass on to each other.
        speeds: Of workers on other hosts.
        hot: The streams that bring the most rows, where a profile counts them and partitions are skewed: each with its
            share of all, 0..1.
    """

    app: str
    since: datetime
    until: datetime
    batches: int
    operator: tuple[str, ...]
    partition: tuple[int, ...]
    worker: tuple[int, ...]
    busy_s: tuple[float, ...]
    busy_error_s: tuple[float, ...]
    rows: tuple[float, ...]
    state_bytes: tuple[int | None, ...]
    memory_bytes: tuple[int | None, ...] = ()
    remote_ratio: float | None = None
    batch_s: float | None = None
    flows: Flows = field(default_factory=Flows)
    speeds: Speeds = field(default_factory=Speeds)
    hot: tuple[tuple[str, float], ...] = ()

    def stateful_batch_s(self, cores: int) -> float:
        """Return how long the stateful stages of a batch take where the groups are, seconds.

        Stages run one after another; each lasts as long as the worker that is ready last.

        Args:
            cores: Tasks that a worker runs at once, >= 1.
        """
        stages: dict[str, dict[int, list[float]]] = {}
        for operator, worker, needed_s in zip(self.operator, self.worker, self.busy_s, strict=True):
            tasks = stages.setdefault(operator, {}).setdefault(worker, [])
            tasks.append(needed_s / self.speeds.of(worker))
        return sum(max(makespan_s(tasks, cores) for tasks in workers.values()) for workers in stages.values())


@dataclass(frozen=True)
class PlacementPlan:
    """Where every key group is to run, what that changes, and the proof of how good it is.

    A batch runs its stages one after another, and each of them lasts as long as its busiest worker: that is what is
    brought down.

    Attributes:
        method: How it was planned, for example ``joint``.
        workers: Numbers of the workers; those that are to go have no group afterwards.
        operator: The stateful operators of each group.
        partition: Its number.
        busy_s: Time that a batch keeps a core of the mean worker busy with it, seconds.
        before: Index of the worker that each group is on; -1 without one.
        after: Index of the worker that it is to run on.
        cores: Tasks that a worker runs at once.
        batch_before_s: Time of the stateful stages of a batch before, seconds.
        batch_after_s: The same under the plan.
        bound_s: No placement on these workers, at any price, makes it less.
        state_bytes: What its moves load, bytes; None where it is not known.
        budget: Moves, or MB of state, that it could spend; None for no limit.
        stage: How far the search came.
        seed: Seed that gives the same plan again.
        near_before: Share of what paired groups pass on that stays within a worker before, 0..1; None without pairs.
        near_after: The same under the plan.
        speeds: Workers that are faster or slower than the others.
        followed_s: Time that is expected once the plans have followed with which alone this one pays, seconds; None for
            one that pays by itself.
    """

    method: str
    workers: tuple[int, ...]
    operator: tuple[str, ...]
    partition: tuple[int, ...]
    busy_s: tuple[float, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    cores: int
    batch_before_s: float
    batch_after_s: float
    bound_s: float
    state_bytes: int | None
    budget: float | None
    stage: str
    seed: int
    near_before: float | None = None
    near_after: float | None = None
    speeds: Speeds = field(default_factory=Speeds)
    followed_s: float | None = None

    @property
    def moves(self) -> int:
        """Groups that move from one worker to another."""
        return sum(0 <= a != b for a, b in zip(self.before, self.after, strict=True))

    @property
    def placed(self) -> int:
        """Groups whose worker is gone."""
        return sum(a < 0 <= b for a, b in zip(self.before, self.after, strict=True))

    @property
    def gap_s(self) -> float:
        """Time over the proven minimum, seconds."""
        return max(0.0, self.batch_after_s - self.bound_s)

    @property
    def gap_ratio(self) -> float:
        """The same, over that minimum; 0 where there is nothing to do."""
        return self.gap_s / self.bound_s if self.bound_s else 0.0

    @property
    def busy_before_s(self) -> tuple[float, ...]:
        """The time that a batch keeps each worker busy before, seconds."""
        return self._busy_s(self.before)

    @property
    def busy_after_s(self) -> tuple[float, ...]:
        """The same under the plan."""
        return self._busy_s(self.after)

    def _busy_s(self, worker: tuple[int, ...]) -> tuple[float, ...]:
        busy = [0.0] * len(self.workers)
        for at, seconds in zip(worker, self.busy_s, strict=True):
            if at >= 0:
                busy[at] += seconds / self.speeds.of(self.workers[at])
        return tuple(busy)

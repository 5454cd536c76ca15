"""State partitions, ALBIC's key groups: what each of them costs, and the executor on which a plan puts it.

A key group moves as one unit: one partition of the stateful operators that a stage runs. An executor is one of the
app's executors, by number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heapreplace

STATEFUL_BATCH = "stateful_batch_s"
"""Key under which a Decision predicts, and a Reconfiguration achieves, the time of a batch's stateful stages."""

PLACEMENT_FIRST, DRAINING = "placement_first", "executors_draining"
"""Reason codes of a Decision that moves state partitions and, for that reason, adds or frees no slots yet."""

OTHER_HOT_KEYS = 0.2
"""Other keys are hot if more than this share of the load has moved to other partitions."""


def makespan_s(tasks_s: Iterable[float], cores: int) -> float:
    """Return how long an executor takes for the tasks of a stage, seconds.

    Spark starts tasks by rising partition, each on the first free core. So a long task with a high number starts
    late, however little work there is in all.

    Args:
        tasks_s: Their times by rising partition, seconds.
        cores: Tasks that the executor runs at once, >= 1.
    """
    free_s = [0.0] * cores
    for task_s in tasks_s:
        heapreplace(free_s, free_s[0] + task_s)
    return max(free_s)


def batch_growth(former: Sequence[float], present: Sequence[float]) -> float:
    """Return how many times larger batches have become, >= 1: those that work off a backlog have more rows.

    Args:
        former: Load of each group, shape (n,), of any unit; all 0 if unknown.
        present: Its load now, shape (n,).
    """
    was = sum(former)
    return max(1.0, sum(present) / was) if was > 0 else 1.0


def other_keys_are_hot(former: Sequence[float], present: Sequence[float]) -> bool:
    """Return whether much of the load has moved to other groups; False if either load is zero.

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

    A group that gets as much from every other group is in no pair: no executor is nearer to its input.

    Attributes:
        producer: Index of the group that emits.
        consumer: Index of the group that receives.
        bytes: Bytes from one to the other per batch, > 0.
        s_per_mb: Extra cost to the receiver of a MB that comes from another executor, seconds; None if the figures do
            not show it.
    """

    producer: tuple[int, ...] = ()
    consumer: tuple[int, ...] = ()
    bytes: tuple[int, ...] = ()
    s_per_mb: float | None = None


@dataclass(frozen=True)
class Speeds:
    """Executors that are surely faster or slower than the others, as columns of equal length.

    Attributes:
        executor: Number of the executor.
        speed: Its work in the time in which the mean executor does 1, > 0.
    """

    executor: tuple[int, ...] = ()
    speed: tuple[float, ...] = ()

    def of(self, executor: int) -> float:
        """Return the speed of an executor; 1 if it is not known to differ."""
        return dict(zip(self.executor, self.speed, strict=True)).get(executor, 1.0)


@dataclass(frozen=True)
class PartitionLoads:
    """Recent cost of each key group, as columns of equal length, by operator and rising partition.

    Missing is None, never 0.

    Attributes:
        app: The app.
        since: Start of the span (UTC).
        until: End of the span: the newest batch that was measured.
        batches: Batches that were measured, >= 1.
        operator: The stateful operators of each group, see :func:`millrace.model.deployment.operator_name`.
        partition: Number of the partition.
        executor: Executor that ran it last; -1 if that executor is gone.
        busy_s: Time that a batch keeps a core of the mean executor busy with it, seconds, waits included: the median
            over batches.
        busy_error_s: Standard error of that, seconds.
        rows: Rows per batch, the median over batches.
        state_bytes: Bytes that an executor would load to take it over; None if they were not measured.
        memory_bytes: Memory of its state on an executor; None if it was not measured; empty if none was.
        remote_ratio: Share of all bytes that came from another executor, 0..1; None if nothing was exchanged.
        batch_s: Time of a whole batch, stateless parts included, seconds: the median; None if unknown.
        flows: Data that groups pass to each other.
        speeds: Speeds of executors on faster or slower hosts.
        hot: The streams that bring the most rows, if a profile counts them and partitions are skewed: each with its
            share of all, 0..1.
    """

    app: str
    since: datetime
    until: datetime
    batches: int
    operator: tuple[str, ...]
    partition: tuple[int, ...]
    executor: tuple[int, ...]
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
        """Return how long the stateful stages of a batch take under the present placement, seconds.

        Stages run one after another; each lasts until its last executor is done.

        Args:
            cores: Tasks that an executor runs at once, >= 1.
        """
        stages: dict[str, dict[int, list[float]]] = {}
        for operator, executor, needed_s in zip(self.operator, self.executor, self.busy_s, strict=True):
            tasks = stages.setdefault(operator, {}).setdefault(executor, [])
            tasks.append(needed_s / self.speeds.of(executor))
        return sum(max(makespan_s(tasks, cores) for tasks in executors.values()) for executors in stages.values())

    def unevenness(self, cores: int, slots: int) -> float:
        """Return how many times as long the stateful stages take as if all slots shared their work evenly, >= 1.

        Args:
            cores: Tasks that an executor runs at once, >= 1.
            slots: Tasks that all executors run at once, >= 1.
        """
        stages: dict[str, list[float]] = {}
        for operator, needed_s in zip(self.operator, self.busy_s, strict=True):
            stages.setdefault(operator, []).append(needed_s)
        even_s = sum(sum(tasks) / min(len(tasks), slots) for tasks in stages.values())
        return max(1.0, self.stateful_batch_s(cores) / even_s) if even_s > 0 else 1.0


@dataclass(frozen=True)
class PlacementPlan:
    """The executor of every key group, what that changes, and a proof of how good it is.

    A batch runs its stages one after another, and each lasts as long as its busiest executor. The plan reduces this
    time.

    Attributes:
        method: Planning method, for example ``joint``.
        executors: Numbers of the executors; those that are to be removed have no group afterwards.
        operator: The stateful operators of each group.
        partition: Its number.
        busy_s: Time that a batch keeps a core of the mean executor busy with it, seconds.
        before: Index of the executor that each group is on; -1 without one.
        after: Index of the executor that each group runs on under the plan.
        cores: Tasks that an executor runs at once.
        batch_before_s: Time of the stateful stages of a batch before, seconds.
        batch_after_s: The same under the plan.
        bound_s: Proven lower bound of that time on these executors, at any price.
        state_bytes: Bytes that its moves load; None if unknown.
        budget: Moves, or MB of state, that it could spend; None for no limit.
        stage: How far the search came.
        seed: Seed that gives the same plan again.
        near_before: Share of what paired groups pass on that stays within an executor before, 0..1; None without pairs.
        near_after: The same under the plan.
        speeds: Executors that are faster or slower than the others.
        followed_s: Time that is expected after the further plans without which this one does not pay, seconds; None if
            it pays by itself.
    """

    method: str
    executors: tuple[int, ...]
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
        """Groups that move from one executor to another."""
        return sum(0 <= a != b for a, b in zip(self.before, self.after, strict=True))

    @property
    def placed(self) -> int:
        """Groups whose executor is gone."""
        return sum(a < 0 <= b for a, b in zip(self.before, self.after, strict=True))

    @property
    def gap_s(self) -> float:
        """Time over the proven lower bound, seconds."""
        return max(0.0, self.batch_after_s - self.bound_s)

    @property
    def gap_ratio(self) -> float:
        """The same, over that bound; 0 if there is nothing to do."""
        return self.gap_s / self.bound_s if self.bound_s else 0.0

    @property
    def busy_before_s(self) -> tuple[float, ...]:
        """Time that a batch keeps each executor busy before, seconds."""
        return self._busy_s(self.before)

    @property
    def busy_after_s(self) -> tuple[float, ...]:
        """The same under the plan."""
        return self._busy_s(self.after)

    def _busy_s(self, executor: tuple[int, ...]) -> tuple[float, ...]:
        busy = [0.0] * len(self.executors)
        for at, seconds in zip(executor, self.busy_s, strict=True):
            if at >= 0:
                busy[at] += seconds / self.speeds.of(self.executors[at])
        return tuple(busy)


@dataclass(frozen=True)
class PotentialPlacement:
    """What placement alone would change, worked out before anyone decides on slots.

    Attributes:
        app: The app.
        slots: Slots of the executors that it was planned for.
        cores: Tasks that an executor runs at once, >= 1.
        known: Whether state partitions were measured; False if they will be after a few more batches.
        now_s: Time of the stateful stages of a batch, seconds.
        planned_s: The same under the plan that placement alone would lead to; ``now_s`` if no plan pays.
        batch_s: Time of a whole batch, seconds; None if unknown.
        cause: Which partitions make the batch slow, and what moving some of them does, for a sentence; empty if no
            plan pays.
        even_ratio: Time that the stages would take if they were spread perfectly over the present executors, over
            ``now_s``; in (0, 1].
        fewer: The same for the best placement on 1, 2, ... executors, up to one fewer than now; 0 if it would exceed a
            limit of an executor. Empty if it is not known.
        heaviest: The partition that takes longest, for a sentence.
        pays: Whether the plan is worth its moves whatever the tuner decides.
        needed: Whether the tuner counts on the plan: then it is made even if it saves less than moves usually have to.
    """

    app: str
    slots: int
    cores: int
    known: bool = True
    now_s: float = 0.0
    planned_s: float = 0.0
    batch_s: float | None = None
    cause: str = ""
    even_ratio: float = 1.0
    fewer: tuple[float, ...] = ()
    heaviest: str = ""
    pays: bool = False
    needed: bool = False

    def gain(self, fixed_s: float) -> float:
        """Return the factor by which placement alone raises the throughput, >= 1.

        Only the stateful part of a batch gets shorter, so this is T / T' if nothing else depends on the rows.

        Args:
            fixed_s: Fixed cost of a batch, seconds: it does not depend on the rows.
        """
        saved_s = max(0.0, self.now_s - self.planned_s)
        work_s = max(self.now_s, (self.batch_s or 0.0) - fixed_s)
        return work_s / (work_s - saved_s) if work_s > saved_s else 1.0

    def share_on(self, slots: int) -> float:
        """Return how well fewer slots are used, compared with the present ones, 0..1; 0 if state does not fit.

        Args:
            slots: >= 1.
        """
        executors = slots // self.cores
        if not 1 <= executors <= len(self.fewer):
            return 1.0
        return min(1.0, self.fewer[executors - 1] / self.even_ratio)

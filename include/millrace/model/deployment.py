"""The desired state of a pipeline, and how a change to it is named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType

from millrace.model.contingency import ContingencyPlan
from millrace.model.errors import MillraceError
from millrace.model.join import JoinSettings
from millrace.model.submit_conf import task_cpus, tasks_at_once

NOWHERE = -1
"""What stands for no table, where a stream leaves, and for no worker, where a partition has none of its own."""
SLOTS, PARALLELISM, INGEST = "slots", "parallelism", "ingest"
EXECUTOR_MEMORY, PLACEMENT, MAX_PARALLELISM = "executor_memory_mb", "placement", "max_parallelism"
JOIN_WORKERS, BLOCK_SIZE, SHED_RATIO = "join_workers", "block_size", "shed_ratio"
JOIN_FIELDS = {JOIN_WORKERS: "workers", BLOCK_SIZE: "block", SHED_RATIO: "shed"}
"""Fields of a join's settings, by what changes call them."""
BY_DECISION, BY_VERIFICATION, BY_CONTINGENCY = "decision", "verification", "contingency"
"""Authors of versions that nobody asked for: of a Decision, of one that undoes another, and of a plan made ahead."""
LIVE = (INGEST, PLACEMENT, *JOIN_FIELDS)
"""Fields whose changes never start a driver: a feed, the running job or its agent obeys them (tiers T0, T1)."""
OWNABLE = (SLOTS, "memory_mb", EXECUTOR_MEMORY, PARALLELISM, INGEST, PLACEMENT, *JOIN_FIELDS)
"""Fields of a Deployment that an optimizer may own."""
CHANGEABLE = (*OWNABLE, MAX_PARALLELISM)
"""Fields that a Decision may change."""


@dataclass(frozen=True)
class Change:
    """One field of a Deployment from one value to another.

    Attributes:
        app: The app.
        field: One of :data:`CHANGEABLE`; it has exactly one owner in the spec.
        before: What it is set to.
        value: What it shall be.
        operator: Whose p it is, where the field is ``parallelism``, or whose partition, where it is ``placement``.
        stream: Which input stream, where the field is ``ingest``; else None. -1 is no table.
        partition: Which state partition, where the field is ``placement``; else None. -1 is no worker.
    """

    app: str
    field: str
    before: int | float
    value: int | float
    operator: str | None = None
    stream: str | None = None
    partition: int | None = None


@dataclass(frozen=True)
class ExecutorSize:
    """One executor of an app that runs on a cluster.

    Attributes:
        cores: Its cores, >= 1; slots move in steps of the tasks that run on them at once.
        memory_mb: Its heap, MiB.
    """

    cores: int
    memory_mb: int


@dataclass(frozen=True)
class AppDeployment:
    """One app of a Deployment.

    Attributes:
        script: The user's script, relative to the spec's working folder or absolute.
        args: The script's arguments.
        slots: Tasks that can run at once, >= 1, on all executors, or in the driver if it has none.
        memory_mb: Driver memory, MiB.
        max_parallelism: Shuffle partitions; state is repartitioned before a driver starts with another number of them.
        submit: The spec's ``submit`` section (master, packages, jars, py_files, conf, env, cwd, python).
        parallelism: p of each operator that is set by itself, by operator id; empty where the stages of the app
            take turns on its slots.
        executor: What its slots are made of on a cluster; None where the driver runs everything itself.
        placement: Worker that each state partition runs on, -1 for any, by operator as :func:`operator_name` names it.
            Operators that it does not name are spread evenly. Workers are the app's executors by number: who takes a
            lost one's place takes its number.
        script_hash: Hash of the script's text when it was deployed; empty where it was not noted.
    """

    script: str
    args: tuple[str, ...]
    slots: int
    memory_mb: int
    max_parallelism: int
    submit: Mapping[str, object] = field(default_factory=dict)
    parallelism: Mapping[str, int] = field(default_factory=dict)
    executor: ExecutorSize | None = None
    placement: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    script_hash: str = ""

    @property
    def executors(self) -> int:
        """Executors that its slots need, rounded up; 0 without a cluster."""
        return 0 if self.executor is None else -(-self.slots // self.slots_per_executor)

    @property
    def task_cpus(self) -> int:
        """Cores that one task takes."""
        return task_cpus(self._conf)

    @property
    def slots_per_executor(self) -> int:
        """Tasks that one executor runs at once, >= 1; 1 without a cluster."""
        return 1 if self.executor is None else tasks_at_once(self.executor.cores, self._conf)

    @property
    def _conf(self) -> Mapping[str, object]:
        conf = self.submit.get("conf")
        return conf if isinstance(conf, Mapping) else {}

    def slots_of(self, executors: int) -> int:
        """Return the slots that so many executors give the app, at most those that it wants."""
        return self.slots if self.executor is None else min(self.slots, executors * self.slots_per_executor)

    @property
    def restart_content(self) -> AppDeployment:
        """The app without what its driver changes while it runs (tier T1): how many executors, and what runs where."""
        return self if self.executor is None else replace(self, slots=0, placement={})

    @property
    def live_content(self) -> tuple[object, ...]:
        """What its driver changes while it runs."""
        return () if self.executor is None else (self.slots, self.placement)

    def value(self, change: Change) -> int | None:
        """Return what the field that a change names is set to; None if there is no such operator."""
        if change.field == PARALLELISM:
            return self.parallelism.get(change.operator or "")
        if change.field == EXECUTOR_MEMORY:
            return None if self.executor is None else self.executor.memory_mb
        if change.field == PLACEMENT:
            return self._worker_of(change.operator or "", change.partition or 0)
        return int(getattr(self, change.field))

    def changed(self, change: Change) -> AppDeployment:
        """Return the app after a change."""
        if change.field == PARALLELISM:
            return replace(self, parallelism={**self.parallelism, change.operator or "": int(change.value)})
        if change.field == EXECUTOR_MEMORY and self.executor is not None:
            return replace(self, executor=replace(self.executor, memory_mb=int(change.value)))
        if change.field == MAX_PARALLELISM:
            return replace(self, max_parallelism=int(change.value), placement={})  # it named the former partitions
        return replace(self, **{change.field: change.value})  # type: ignore[arg-type]

    def _worker_of(self, operator: str, partition: int) -> int | None:
        if self.executor is None:
            return None
        workers = self.placement.get(operator, ())
        return workers[partition] if partition < len(workers) else NOWHERE

    def placed(self, changes: Iterable[Change]) -> AppDeployment:
        """Return the app after changes of its placement."""
        placement = {operator: list(workers) for operator, workers in self.placement.items()}
        for change in changes:
            workers, partition = placement.setdefault(change.operator or "", []), change.partition or 0
            workers += [NOWHERE] * (partition + 1 - len(workers))
            workers[partition] = int(change.value)
        named = {operator: tuple(on) for operator, on in placement.items() if set(on) != {NOWHERE}}
        return replace(self, placement=named)


def operator_name(query: str, operators: Sequence[int]) -> str:
    """Return the name of stateful operators that one stage runs, so that their partitions move together.

    Args:
        query: Name of the query, or its id where it has none.
        operators: Spark's numbers of the operators, at least one.
    """
    return f"{query}/{'+'.join(map(str, sorted(operators)))}"


@dataclass(frozen=True)
class Deployment:
    """The whole desired state of a pipeline, numbered.

    Immutable; versions only go up; a roll-back is a new version with old content.

    Attributes:
        pipeline: Name of the pipeline.
        version: >= 1.
        running: False if the pipeline is to be stopped.
        apps: Its apps by name.
        author: Who made it: ``decision``, ``reconciler`` or a person.
        decision_id: The Decision it comes from; None for a launch or a person's change.
        reason: One sentence.
        ingest: Number of the ingest table that each input stream enters at, by stream; empty where its feed decides.
        join: Settings of its stream join; None without one.
        detached: True while its job runs on without Millrace: nothing is evaluated, started or stopped.
        source: Hash of what the spec and its script said when they were last taken over; empty where it was not noted.
            A roll-back keeps it: what was undone is not taken over again before it has changed.
        finished: When its script ended by itself, with nothing left to do, so that it does not run any more (UTC).
        contingencies: What its agents may do at once if more arrives; None where they wait for evaluations.
    """

    pipeline: str
    version: int
    running: bool
    apps: Mapping[str, AppDeployment]
    author: str = "person"
    decision_id: str | None = None
    reason: str = ""
    ingest: Mapping[str, int] = field(default_factory=dict)
    join: JoinSettings | None = None
    detached: bool = False
    finished: datetime | None = None
    source: str = ""
    contingencies: ContingencyPlan | None = None

    @property
    def state(self) -> str:
        """How it is to be: ``running``, ``detached``, ``finished`` or ``stopped``."""
        if self.running:
            return "detached" if self.detached else "running"
        return "stopped" if self.finished is None else "finished"

    @property
    def sizeable(self) -> bool:
        """Whether its telemetry says how it should run: now, or at its next launch where it has finished."""
        return self.running or self.finished is not None

    @property
    def kept_running(self) -> bool:
        """Whether Millrace is to keep it running."""
        return self.running and not self.detached

    @property
    def slots(self) -> int:
        """Slots that it holds: none where it is stopped."""
        return sum(app.slots for app in self.apps.values()) if self.running else 0

    def restarts(self, other: Deployment) -> bool:
        """Return whether the way to another content starts a driver anew (tier T2)."""
        before, after = ({name: app.restart_content for name, app in d.apps.items()} for d in (self, other))
        return before != after

    @property
    def content(self) -> tuple[object, ...]:
        """All that changes can change: two versions of equal content differ by number and history only."""
        return self.apps, self.ingest, self.join

    def value(self, change: Change) -> float | None:
        """Return what a change's field is set to: -1 for a stream that has no table, None for what does not exist."""
        if change.field in JOIN_FIELDS:
            return None if self.join is None else getattr(self.join, JOIN_FIELDS[change.field])
        if change.field == INGEST:
            return self.ingest.get(change.stream or "", NOWHERE)
        return self.apps[change.app].value(change) if change.app in self.apps else None

    def with_changes(self, changes: tuple[Change, ...]) -> Deployment:
        """Return the content that results from typed changes (same version; the store numbers it).

        Raises:
            MillraceError: If a change names an app, a field or an operator that does not exist.
        """
        apps, ingest, join = dict(self.apps), dict(self.ingest), self.join
        placed: dict[str, list[Change]] = {}
        for change in changes:
            self._check(change)
            if change.field == INGEST:
                ingest[change.stream or ""] = int(change.value)
            elif change.field == PLACEMENT:
                placed.setdefault(change.app, []).append(change)
            elif change.field in JOIN_FIELDS and join is not None:
                join = replace(join, **{JOIN_FIELDS[change.field]: change.value})  # type: ignore[arg-type]
            else:
                apps[change.app] = apps[change.app].changed(change)
        apps |= {name: apps[name].placed(of_app) for name, of_app in placed.items()}
        entered = {stream: table for stream, table in ingest.items() if table != NOWHERE}
        plan = self.contingencies if apps == self.apps else None  # it was made for other slots
        content = replace(self, apps=MappingProxyType(apps), ingest=MappingProxyType(entered), join=join)
        return replace(content, contingencies=plan)

    def _check(self, change: Change) -> None:
        """Raise a MillraceError if what a change names does not exist."""
        if change.app not in self.apps:
            raise MillraceError("change.app", change.app, ", ".join(sorted(self.apps)), "Name an app of the pipeline.")
        if change.field not in CHANGEABLE:
            raise MillraceError("change.field", change.field, ", ".join(CHANGEABLE), "Name a changeable field.")
        if self.value(change) is not None:
            return
        if change.field in JOIN_FIELDS:
            raise MillraceError("change.field", change.field, "a pipeline with a join", "Name another field.")
        if change.field in (PLACEMENT, EXECUTOR_MEMORY):
            raise MillraceError("change.field", change.field, "an app with executors", "Name another field.")
        allowed = ", ".join(sorted(self.apps[change.app].parallelism)) or "none"
        raise MillraceError("change.operator", change.operator, allowed, "Name an operator with its own parallelism.")

"""The desired state of a pipeline, and how a change to it is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from include.model.errors import MillraceError
from include.model.join import JoinSettings

NOWHERE = -1
"""What stands for no table, where a stream leaves."""
SLOTS, PARALLELISM, INGEST = "slots", "parallelism", "ingest"
EXECUTOR_MEMORY = "executor_memory_mb"
JOIN_WORKERS, BLOCK_SIZE, SHED_RATIO = "join_workers", "block_size", "shed_ratio"
JOIN_FIELDS = {JOIN_WORKERS: "workers", BLOCK_SIZE: "block", SHED_RATIO: "shed"}
"""Fields of a join's settings, by what changes call them."""
LIVE = (INGEST, *JOIN_FIELDS)
"""Fields whose changes start no driver: a feed or the running job obeys them (tier T0)."""
CHANGEABLE = (SLOTS, "memory_mb", EXECUTOR_MEMORY, PARALLELISM, INGEST, *JOIN_FIELDS)
"""Fields of a Deployment that an optimizer may own."""


@dataclass(frozen=True)
class Change:
    """One field of a Deployment from one value to another.

    Attributes:
        app: The app.
        field: One of :data:`CHANGEABLE`; it has exactly one owner in the spec.
        before: What it is set to.
        value: What it shall be.
        operator: Whose p it is, where the field is ``parallelism``; else None.
        stream: Which input stream, where the field is ``ingest``; else None. -1 is no table.
    """

    app: str
    field: str
    before: int | float
    value: int | float
    operator: str | None = None
    stream: str | None = None


@dataclass(frozen=True)
class ExecutorSize:
    """One executor of an app that runs on a cluster.

    Attributes:
        cores: Its cores, >= 1; slots move in steps of them.
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
        slots: Tasks that run at once, >= 1: cores of all executors, or of the driver where it has none.
        memory_mb: Driver memory, MiB.
        max_parallelism: Shuffle partitions, fixed for stateful operators at first start.
        submit: The spec's ``submit`` section (master, packages, jars, py_files, conf, env, cwd, python).
        parallelism: p of each operator that is set by itself, by operator id; empty where the stages of the app
            take turns on its slots.
        executor: What its slots are made of on a cluster; None where the driver runs everything itself.
    """

    script: str
    args: tuple[str, ...]
    slots: int
    memory_mb: int
    max_parallelism: int
    submit: Mapping[str, object] = field(default_factory=dict)
    parallelism: Mapping[str, int] = field(default_factory=dict)
    executor: ExecutorSize | None = None

    @property
    def executors(self) -> int:
        """Executors that its slots need, rounded up; 0 without a cluster."""
        return 0 if self.executor is None else -(-self.slots // self.executor.cores)

    def slots_of(self, executors: int) -> int:
        """Return the slots that so many executors give the app, at most those that it wants."""
        return self.slots if self.executor is None else min(self.slots, executors * self.executor.cores)

    @property
    def restart_content(self) -> AppDeployment:
        """The app without what its driver changes while it runs (tier T1): executors come and go."""
        return self if self.executor is None else replace(self, slots=0)

    def value(self, change: Change) -> int | None:
        """Return what the field that a change names is set to; None if there is no such operator."""
        if change.field == PARALLELISM:
            return self.parallelism.get(change.operator or "")
        if change.field == EXECUTOR_MEMORY:
            return None if self.executor is None else self.executor.memory_mb
        return int(getattr(self, change.field))

    def changed(self, change: Change) -> AppDeployment:
        """Return the app after a change."""
        if change.field == PARALLELISM:
            return replace(self, parallelism={**self.parallelism, change.operator or "": int(change.value)})
        if change.field == EXECUTOR_MEMORY and self.executor is not None:
            return replace(self, executor=replace(self.executor, memory_mb=int(change.value)))
        return replace(self, **{change.field: change.value})  # type: ignore[arg-type]


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
        for change in changes:
            if change.app not in apps:
                raise MillraceError("change.app", change.app, ", ".join(sorted(apps)), "Name an app of the pipeline.")
            if change.field not in CHANGEABLE:
                raise MillraceError("change.field", change.field, ", ".join(CHANGEABLE), "Name a changeable field.")
            if change.field == INGEST:
                ingest[change.stream or ""] = int(change.value)
                continue
            if change.field in JOIN_FIELDS:
                if join is None:
                    raise MillraceError("change.field", change.field, "a pipeline with a join", "Name another field.")
                join = replace(join, **{JOIN_FIELDS[change.field]: change.value})  # type: ignore[arg-type]
                continue
            if apps[change.app].value(change) is None:
                allowed = ", ".join(sorted(apps[change.app].parallelism)) or "none"
                raise MillraceError(
                    "change.operator", change.operator, allowed, "Name an operator with its own parallelism."
                )
            apps[change.app] = apps[change.app].changed(change)
        entered = {stream: table for stream, table in ingest.items() if table != NOWHERE}
        return replace(self, apps=MappingProxyType(apps), ingest=MappingProxyType(entered), join=join)

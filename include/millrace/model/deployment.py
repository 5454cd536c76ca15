"""The desired state of a pipeline, and its changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType

from millrace.model.contingency import Contingency, ContingencyPlan
from millrace.model.errors import MillraceError
from millrace.model.join import JoinSettings
from millrace.model.key_map import KeyMap
from millrace.model.submit_conf import task_cpus, tasks_at_once

NOWHERE = -1
"""Stands for no table if a stream leaves, and for no executor if a partition has none assigned."""
SLOTS, PARALLELISM, INGEST = "slots", "parallelism", "ingest"
EXECUTOR_MEMORY, PLACEMENT, MAX_PARALLELISM = "executor_memory_mb", "placement", "max_parallelism"
BATCH_LIMIT = "batch_limit"
JOIN_WORKERS, BLOCK_SIZE, SHED_RATIO = "join_workers", "block_size", "shed_ratio"
JOIN_FIELDS = {JOIN_WORKERS: "workers", BLOCK_SIZE: "block", SHED_RATIO: "shed"}
"""Fields of a join's settings, by their names in changes."""
BY_DECISION, BY_VERIFICATION, BY_CONTINGENCY = "decision", "verification", "contingency"
"""Authors of versions that no person asked for: a Decision, one that undoes another, and a plan made ahead."""
PARTITION_MAP = "partition_map"
LIVE = (INGEST, PLACEMENT, PARTITION_MAP, *JOIN_FIELDS)
"""Fields whose changes never restart a driver: a feed, the running job or its agent follows them (tiers T0, T1)."""
OWNABLE = (
    *(SLOTS, "memory_mb", EXECUTOR_MEMORY, PARALLELISM, BATCH_LIMIT),
    *(INGEST, PLACEMENT, PARTITION_MAP, *JOIN_FIELDS),
)
"""Fields of a Deployment that an optimizer may own."""
EXTERNAL = "external"
"""``submit.launcher`` of an app whose driver somebody else starts."""
CHANGEABLE = (*OWNABLE, MAX_PARALLELISM)
"""Fields that a Decision may change."""


def node_name(number: int) -> str:
    """Return the name of the app that is a node of a fleet; ``ingest`` has its number."""
    return f"node{number}"


def is_node_name(app: str) -> bool:
    """Return whether an app is called like a node of a fleet."""
    return app.startswith("node") and app.removeprefix("node").isdecimal()


@dataclass(frozen=True)
class Change:
    """A new value for one field of a Deployment.

    Attributes:
        app: The app.
        field: One of :data:`CHANGEABLE`; it has exactly one owner in the spec.
        before: Present value.
        value: New value.
        operator: Operator whose p or partition it is, if the field is ``parallelism`` or ``placement``; name of the
            keys if it is ``partition_map``, whose values are revisions, 0 for no map; option of the source if it is
            ``batch_limit``.
        stream: Input stream, if the field is ``ingest``; else None. Values of -1 stand for no table.
        partition: State partition, if the field is ``placement``; else None. Values of -1 stand for no executor.
        key_map: The new map, if the field is ``partition_map``; else None.
    """

    app: str
    field: str
    before: int | float
    value: int | float
    operator: str | None = None
    stream: str | None = None
    partition: int | None = None
    key_map: KeyMap | None = None

    @property
    def name(self) -> str:
        """What changes, for a person: the field, or the option of the source if that says more."""
        return self.operator if self.field == BATCH_LIMIT and self.operator else self.field


@dataclass(frozen=True)
class ExecutorSize:
    """One executor of an app that runs on a cluster.

    Attributes:
        cores: Its cores, >= 1; slots change in steps of the tasks that these run at once.
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
        max_parallelism: Shuffle partitions; if their number changes, state is rescaled before the driver starts.
        submit: The spec's ``submit`` section (master, packages, jars, py_files, conf, env, cwd, python).
        parallelism: p of each operator that is set by itself, by operator id; empty if the stages of the app
            take turns on its slots.
        executor: Size of its executors on a cluster; None if the driver runs everything itself.
        placement: Executor that each state partition runs on, -1 for any, by operator (see :func:`operator_name`).
            Partitions of unnamed operators are spread evenly. Executors are numbered; a replacement gets the number of
            the lost executor.
        script_hash: Hash of the script's text when it was deployed; empty if it was not noted.
        standby: Whether it runs only while a stream enters at it: a node of a fleet that is not always needed.
        batch_limits: Options of sources that limit a batch (``maxFilesPerTrigger``), with the values to which Millrace
            raises those in the script; empty to leave the script as it is.
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
    standby: bool = False
    batch_limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_external(self) -> bool:
        """Whether somebody else starts and stops its driver, which a script attaches."""
        return self.submit.get("launcher") == EXTERNAL

    @property
    def executors(self) -> int:
        """Executors that its slots need, rounded up; 0 without a cluster."""
        return 0 if self.executor is None else -(-self.slots // self.slots_per_executor)

    @property
    def task_cpus(self) -> int:
        """Cores per task."""
        return task_cpus(self.conf)

    @property
    def slots_per_executor(self) -> int:
        """Tasks that one executor runs at once, >= 1; 1 without a cluster."""
        return 1 if self.executor is None else tasks_at_once(self.executor.cores, self.conf)

    @property
    def conf(self) -> Mapping[str, object]:
        """Spark's settings from the spec, by name."""
        conf = self.submit.get("conf")
        return conf if isinstance(conf, Mapping) else {}

    def tasks_on(self, cores: int | None) -> int:
        """Return the tasks that an executor with this many cores runs at once; None stands for the usual cores."""
        return self.slots_per_executor if cores is None else tasks_at_once(cores, self.conf)

    @property
    def restart_content(self) -> AppDeployment:
        """The app without what its driver changes while it runs (tier T1): its executors, and what runs on them."""
        content = replace(self, standby=False)
        return content if self.executor is None else replace(content, slots=0, placement={})

    @property
    def live_content(self) -> tuple[object, ...]:
        """The part of the app that its driver changes while it runs."""
        return () if self.executor is None else (self.slots, self.placement)

    def value(self, change: Change) -> int | None:
        """Return the present value of a change's field; None if there is no such operator.

        A batch limit that was never changed is the script's own, from which the change starts.
        """
        if change.field == PARALLELISM:
            return self.parallelism.get(change.operator or "")
        if change.field == BATCH_LIMIT:
            return self.batch_limits.get(change.operator or "", int(change.before))
        if change.field == EXECUTOR_MEMORY:
            return None if self.executor is None else self.executor.memory_mb
        if change.field == PLACEMENT:
            return self._executor_of(change.operator or "", change.partition or 0)
        return int(getattr(self, change.field))

    def changed(self, change: Change) -> AppDeployment:
        """Return the app after a change."""
        if change.field == PARALLELISM:
            return replace(self, parallelism={**self.parallelism, change.operator or "": int(change.value)})
        if change.field == BATCH_LIMIT:
            return replace(self, batch_limits={**self.batch_limits, change.operator or "": int(change.value)})
        if change.field == EXECUTOR_MEMORY and self.executor is not None:
            return replace(self, executor=replace(self.executor, memory_mb=int(change.value)))
        if change.field == MAX_PARALLELISM:
            return replace(self, max_parallelism=int(change.value), placement={})  # the old one names old partitions
        return replace(self, **{change.field: change.value})  # type: ignore[arg-type]

    def _executor_of(self, operator: str, partition: int) -> int | None:
        if self.executor is None:
            return None
        executors = self.placement.get(operator, ())
        return executors[partition] if partition < len(executors) else NOWHERE

    def placed(self, changes: Iterable[Change]) -> AppDeployment:
        """Return the app after changes of its placement."""
        placement = {operator: list(executors) for operator, executors in self.placement.items()}
        for change in changes:
            executors, partition = placement.setdefault(change.operator or "", []), change.partition or 0
            executors += [NOWHERE] * (partition + 1 - len(executors))
            executors[partition] = int(change.value)
        named = {operator: tuple(on) for operator, on in placement.items() if set(on) != {NOWHERE}}
        return replace(self, placement=named)


def operator_name(query: str, operators: Sequence[int]) -> str:
    """Return the name of the stateful operators that one stage runs, whose partitions move together.

    Args:
        query: Name of the query, or its id if it has none.
        operators: Spark's numbers of the operators, at least one.
    """
    return f"{query}/{'+'.join(map(str, sorted(operators)))}"


@dataclass(frozen=True)
class Deployment:
    """The whole desired state of a pipeline, numbered.

    Immutable; versions only go up; a rollback is a new version with old content.

    Attributes:
        pipeline: Name of the pipeline.
        version: >= 1.
        running: False if the pipeline should be stopped.
        apps: Its apps by name.
        author: Who made it: ``decision``, ``verification``, ``contingency``, ``reconciler`` or a person.
        decision_id: The Decision it comes from; None for a launch or a person's change.
        reason: One sentence.
        ingest: Number of the ingest table that each input stream enters at, by stream; empty if its feed decides.
        join: Settings of its stream join; None without one.
        detached: True while its job runs on without Millrace: nothing is evaluated, started or stopped.
        source: Hash of the spec and its script when they were last taken over; empty if it was not noted. A rollback
            keeps it, so what was undone is not taken over again until it changes.
        finished: When its script ended by itself with nothing left to do (UTC); it does not run any more.
        contingencies: Plan that its agents may carry out at once if more arrives; None if they wait for evaluations.
        origin: Version that brought this content, if this version only has another plan, or only detaches or attaches
            the pipeline; None if it brought it itself.
        partitioning: How its running queries spread rows over workers, by the names that its scripts give the keys.
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
    origin: int | None = None
    partitioning: Mapping[str, KeyMap] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """Its desired state: ``running``, ``detached``, ``finished`` or ``stopped``."""
        if self.running:
            return "detached" if self.detached else "running"
        return "stopped" if self.finished is None else "finished"

    @property
    def sizeable(self) -> bool:
        """Whether its telemetry shows how it should run, now or, if it has finished, at its next launch."""
        return self.running or self.finished is not None

    @property
    def is_external(self) -> bool:
        """Whether somebody else starts and stops its drivers."""
        return any(app.is_external for app in self.apps.values())

    @property
    def kept_running(self) -> bool:
        """Whether Millrace keeps it running."""
        return self.running and not self.detached

    @property
    def slots(self) -> int:
        """Slots that it holds; 0 if it is stopped."""
        return sum(app.slots for app in map(self.wanted, self.apps) if app is not None)

    def wanted(self, app: str) -> AppDeployment | None:
        """Return the content of an app that has to run; None if it has not, or does not exist."""
        content = self.apps.get(app) if self.running else None
        return None if content is None or (content.standby and app not in self.entered) else content

    @property
    def entered(self) -> frozenset[str]:
        """Apps at which a stream enters, if it is a fleet."""
        return frozenset(map(node_name, self.ingest.values()))

    def restarts(self, other: Deployment) -> bool:
        """Return whether a change to another content restarts a driver (tier T2)."""
        before, after = ({name: app.restart_content for name, app in d.apps.items()} for d in (self, other))
        return before != after

    @property
    def content(self) -> tuple[object, ...]:
        """Everything that changes can change; versions of equal content differ only in number and history."""
        # a map's revision identifies it: the next evaluation would make a slightly different map for the same reason
        return self.apps, self.ingest, self.join, {name: of.revision for name, of in self.partitioning.items()}

    def value(self, change: Change) -> float | None:
        """Return the value of a change's field: -1 for a stream without a table, None for what does not exist."""
        if change.field in JOIN_FIELDS:
            return None if self.join is None else getattr(self.join, JOIN_FIELDS[change.field])
        if change.field == INGEST:
            return self.ingest.get(change.stream or "", NOWHERE)
        if change.field == PARTITION_MAP and change.app in self.apps:
            of = self.partitioning.get(change.operator or "")
            return 0 if of is None else of.revision
        return self.apps[change.app].value(change) if change.app in self.apps else None

    def with_changes(self, changes: tuple[Change, ...]) -> Deployment:
        """Return the content that results from typed changes (same version; the store numbers it).

        Raises:
            MillraceError: If a change names an app, a field or an operator that does not exist.
        """
        apps, ingest, join, maps = dict(self.apps), dict(self.ingest), self.join, dict(self.partitioning)
        placed: dict[str, list[Change]] = {}
        for change in changes:
            self._check(change)
            if change.field == INGEST:
                ingest[change.stream or ""] = int(change.value)
            elif change.field == PARTITION_MAP:
                maps[change.operator or ""] = _map_of(change)
            elif change.field == PLACEMENT:
                placed.setdefault(change.app, []).append(change)
            elif change.field in JOIN_FIELDS and join is not None:
                join = replace(join, **{JOIN_FIELDS[change.field]: change.value})  # type: ignore[arg-type]
            else:
                apps[change.app] = apps[change.app].changed(change)
        apps |= {name: apps[name].placed(of_app) for name, of_app in placed.items()}
        entered = {stream: table for stream, table in ingest.items() if table != NOWHERE}
        plan = self.contingencies if apps == self.apps else None  # the plan was made for the former slots
        content = replace(self, apps=MappingProxyType(apps), ingest=MappingProxyType(entered), join=join)
        content = replace(content, partitioning=MappingProxyType(maps))
        return replace(content, contingencies=plan, origin=None)

    def with_plan(self, plan: ContingencyPlan | None) -> Deployment:
        """Return the same content with another plan."""
        return replace(self, contingencies=plan, origin=self.origin or self.version)

    def _check(self, change: Change) -> None:
        """Raise a MillraceError if a change names something that does not exist."""
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


def _map_of(change: Change) -> KeyMap:
    if change.key_map is None or not change.operator:
        raise MillraceError("change.key_map", change.key_map, "a map, with the name of its keys", "Give both.")
    return change.key_map


def slot_changes(line: Contingency, content: Deployment) -> tuple[Change, ...]:
    """Return the changes by which a line of a plan is carried out; other apps that have as many slots keep theirs."""
    wanted = {line.app: line.slots, **line.others}
    present = {app: content.apps[app].slots for app in wanted if app in content.apps}
    return tuple(Change(app, SLOTS, before, wanted[app]) for app, before in present.items() if wanted[app] > before)

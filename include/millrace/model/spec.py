"""The pipeline spec: the YAML that a user writes, checked before anything runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from millrace.model.admission import INGEST_OPTIMIZER
from millrace.model.admission_spec import Admission
from millrace.model.alert_spec import AlertChannel
from millrace.model.app_spec import SHARED, AppName, AppSection, Budget, cycle, merged
from millrace.model.codec import to_json
from millrace.model.deployment import (
    BATCH_LIMIT,
    EXECUTOR_MEMORY,
    EXTERNAL,
    INGEST,
    JOIN_FIELDS,
    MAX_PARALLELISM,
    OWNABLE,
    PARALLELISM,
    PARTITION_MAP,
    PLACEMENT,
    SLOTS,
    AppDeployment,
    Deployment,
    ExecutorSize,
)
from millrace.model.errors import MillraceError, pydantic_reason
from millrace.model.fleet_spec import Fleet, with_nodes
from millrace.model.join import JOIN_OPTIMIZER
from millrace.model.join_spec import Join
from millrace.model.key_map import PARTITION_OPTIMIZER
from millrace.model.master import EMBEDDED, LOCAL
from millrace.model.objective import Bounds, Objective
from millrace.model.partitioning_spec import Partitioning
from millrace.model.placement_spec import Placement
from millrace.model.profile_spec import Profile
from millrace.model.spec_base import NAME, Strict
from millrace.model.spec_sections import Cost, Executor, GuardsSpec, ObjectiveSpec, Quality, Slots, Submit, Tuner
from millrace.model.submit_conf import task_cpus, tasks_at_once
from millrace.model.verification_spec import Verification

MEMORY_OPTIMIZER, PLACEMENT_OPTIMIZER = "executor_memory", "albic"
"""They size executors if an app has any, and place state partitions on them if the spec asks for it."""
BATCH_OPTIMIZER = "batch_limits"
"""It says which batch limits are too small, and raises them if ``submit.tune_batches`` allows it."""
SPEC = "spec"
"""Owner of fields that no optimizer changes and that a Decision takes from the spec."""
PERSON = "person"
"""Owner of fields that only a person changes, and proposer of what a person forces."""
STREAM_JOIN = Path(__file__).resolve().parents[1] / "jobs" / "stream_join.py"
"""Script of a pipeline that is a join."""


class Mode(StrEnum):
    """Whether changes are only advised, need approval, or are applied automatically."""

    ADVISE = "advise"
    APPROVE = "approve"
    AUTO = "auto"


def _needs_something_to_run(schema: dict[str, Any]) -> None:
    schema["required"].remove("script")
    schema["anyOf"] = [{"required": [key]} for key in ("script", "join", "apps", "fleet", "submit")]


class PipelineSpec(Strict):
    """A pipeline: the scripts that Millrace runs, and how Millrace may adapt them."""

    model_config = ConfigDict(json_schema_extra=_needs_something_to_run)

    name: str = Field(pattern=NAME, description="Name in DAGs, tables and commands")
    description: str = Field("", description="Purpose of the pipeline, in one line")
    script: str = Field(
        description="PySpark script, absolute or relative to the spec's folder. Not needed if there is a `join`, or if "
        "each of `apps` has its own"
    )
    args: tuple[str, ...] = Field((), description="Arguments of the script; ${MILLRACE_HOME} is replaced")
    submit: Submit = Submit()
    slots: Slots = Slots()
    executor: Executor = Executor()
    memory_mb: int = Field(1024, ge=512, description="Driver memory, MiB")
    max_parallelism: Annotated[int, Field(ge=1, le=32768)] = Field(
        8, description="Shuffle partitions; changing it rescales the state, with a restart"
    )
    objective: ObjectiveSpec = ObjectiveSpec()
    tuner: Tuner = Tuner()
    owners: dict[str, str] = Field(
        default_factory=dict,
        description=f"Optimizer that may change a field, or `person` if none may. Fields: {', '.join(OWNABLE)}",
    )
    mode: Mode = Field(Mode.ADVISE, description="Only advise changes, ask a person to approve them, or apply them")
    rescale: Mode = Field(Mode.APPROVE, description="The same for changes of max_parallelism, whatever the mode")
    approval_expires_s: float = Field(3600.0, gt=0, description="Time in which a person can approve a change, seconds")
    period_s: float = Field(60.0, ge=1, description="Shortest time between two evaluations, seconds")
    guards: GuardsSpec = GuardsSpec()
    verification: Verification = Verification()
    quality: Quality = Quality()
    ready_deadline_s: Annotated[float, Field(gt=0)] = Field(
        120.0, description="Longest time without progress for a driver that is not ready yet, seconds"
    )
    stop_deadline_s: Annotated[float, Field(gt=0)] = Field(
        60.0, description="Time from asking a driver to stop until it is killed, seconds"
    )
    hang_deadline_s: Annotated[float, Field(gt=0)] = Field(
        300.0, description="Time after which a driver that does not answer or makes no progress is restarted, seconds"
    )
    batch_deadline_s: Annotated[float, Field(gt=0)] = Field(
        3600.0,
        description="Longest time that a running batch may show no progress, seconds; after it hang_deadline_s applies",
    )
    profile: Profile | None = None
    placement: Placement | None = None
    partitioning: Partitioning | None = None
    admission: Admission | None = None
    join: Join | None = None
    cost: Cost | None = None
    alerts: tuple[AlertChannel, ...] = Field((), description="Who is alerted, and of which events")
    apps: dict[AppName, AppSection] = Field(
        default_factory=dict, description="Several apps by name, each with its own driver, that feed each other"
    )
    fleet: Fleet | None = None
    budget: Budget | None = None
    priority: float = Field(
        1.0, gt=0, le=1000, description="Weight against other pipelines if guards.max_total_slots is too small for all"
    )
    _app: str | None = PrivateAttr(None)

    @model_validator(mode="before")
    @classmethod
    def _joins_and_apps_have_a_script(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and raw.get("join") is not None:
            return {"script": str(STREAM_JOIN), **raw}
        if isinstance(raw, dict) and raw.get("fleet") is not None:
            return with_nodes(raw)
        if isinstance(raw, dict) and raw.get("apps"):
            return {"script": "", **raw}
        if isinstance(raw, dict) and isinstance(submit := raw.get("submit"), dict):
            # its state can only be rescaled between two drivers that Millrace starts
            attached = {"script": "", "rescale": Mode.ADVISE} if submit.get("launcher") == EXTERNAL else {}
            return {**attached, **raw}
        return raw

    @model_validator(mode="after")
    def _owned_fields_exist(self) -> Self:
        unknown = sorted(set(self.owners) - set(OWNABLE))
        if unknown:
            raise ValueError(f"owners: {', '.join(unknown)} cannot be owned; allowed: {', '.join(OWNABLE)}")
        return self

    @model_validator(mode="after")
    def _slots_are_whole_executors(self) -> Self:
        if self.apps:
            return self  # each app is checked with its own keys
        step = self.slot_step
        windows = [n for window in self.slots.schedule for n in (window.min, window.max) if n is not None]
        if any(n % step for n in (self.slots.min, self.slots.max, self.slots.start, *windows)):
            of = "executor.cores" if task_cpus(self.submit.conf) == 1 else "executor.cores / spark.task.cpus"
            raise ValueError(f"slots: min, max and start must be multiples of {of}, {step}; also in schedule")
        return self

    @model_validator(mode="after")
    def _attached_drivers_need_no_start(self) -> Self:
        if not self.submit.is_external:
            return self
        for key in ("join", "fleet", "apps", "profile"):
            if getattr(self, key):
                raise ValueError(f"{key}: Millrace starts its drivers; leave out submit.launcher, or {key}")
        if self.submit.tune_batches:
            raise ValueError("submit.tune_batches: Millrace must start the driver; leave it or submit.launcher out")
        if self.rescale is not Mode.ADVISE:
            raise ValueError("rescale: only advise, because Millrace does not start the driver of this pipeline")
        return self

    @model_validator(mode="after")
    def _placement_has_executors(self) -> Self:
        if self.placement is not None and self.submit.master == LOCAL:
            remedy = f"set submit.master to {EMBEDDED} or to your cluster, or leave placement out"
            raise ValueError(f"placement: needs executors, but submit.master is {LOCAL}; {remedy}")
        return self

    @model_validator(mode="after")
    def _admitted_streams_are_measured(self) -> Self:
        if self.admission is None:
            return self
        if self.admission.capacity is None and self.fleet is None:
            raise ValueError("admission.capacity: set the rows per second that an ingest node takes; a fleet learns it")
        if self.admission.ingest and self.profile is not None:
            raise ValueError("admission: with ingest, the feed reports its streams; leave profile out")
        if not self.admission.ingest and self.profile is None:
            raise ValueError("admission: needs ingest, or profile.stream to define the input streams")
        if len(set(self.admission.ingest)) < len(self.admission.ingest):
            raise ValueError("admission: ingest names a table twice")
        for key in ("query_app", "merge_app"):
            app = None if self.admission.sizing is None else getattr(self.admission.sizing, key)
            if app is not None and app not in (self.apps or (self.name,)):
                allowed = ", ".join(self.apps) or self.name
                raise ValueError(f"admission.sizing.{key}: {app} is no app of the pipeline; allowed: {allowed}")
            if app is not None and self.field_owners[SLOTS] != INGEST_OPTIMIZER:
                raise ValueError(f"admission.sizing.{key}: needs owners: {{slots: {INGEST_OPTIMIZER}}}")
        return self

    @model_validator(mode="after")
    def _joins_can_run(self) -> Self:
        if self.join is None:
            return self
        if self.join.workers.max > self.max_parallelism:
            most = f"max_parallelism, {self.max_parallelism}"
            raise ValueError(f"join.workers.max: at most {most}, as each worker has its own shuffle partition")
        if self.admission is not None or self.profile is not None:
            raise ValueError("join: its job counts the streams itself; leave admission and profile out")
        return self

    @model_validator(mode="after")
    def _apps_can_run(self) -> Self:
        if not self.apps:
            if self.budget is not None:
                raise ValueError("budget: several apps share it; use slots.max for one app, or list the apps in apps")
            return self
        for key in SHARED:
            if getattr(self, key) is not None and not (self.fleet and key == "admission"):
                raise ValueError(f"{key}: works on one app; make that app a pipeline of its own, or leave it out")
        for name, section in self.apps.items():
            others = [other for other in self.apps if other != name]
            unknown = sorted({*section.reads} - {*others})
            if unknown:
                allowed = ", ".join(others) or "none"
                raise ValueError(f"apps.{name}.reads: {', '.join(unknown)} is no other app; allowed: {allowed}")
        loop = cycle({name: section.reads for name, section in self.apps.items()})
        if loop:
            raise ValueError(f"apps.{loop[0]}.reads: {' reads '.join(reversed(loop))}; leave one of them out")
        slots = [spec.slots for spec in self.app_specs.values()]
        for key, of in (("min", [own.highest_min for own in slots]), ("start", [own.start for own in slots])):
            if self.budget is not None and self.budget.slots < sum(of):
                raise ValueError(f"budget.slots: at least {sum(of)}, the sum of the apps' slots.{key}")
        return self

    @property
    def app(self) -> str:
        """Name of its app; of several apps, each has its own in :attr:`app_specs`."""
        return self._app or self.name

    @property
    def is_one_of_several(self) -> bool:
        """Whether it is the spec of one app in :attr:`app_specs` of a pipeline of several."""
        return self._app is not None

    @property
    def app_specs(self) -> Mapping[str, PipelineSpec]:
        """The spec of each app by name, as if it were the pipeline's only one.

        Raises:
            ValueError: If an app's keys are out of range.
        """
        return {name: self._of_app(name) for name in self.apps} or {self.app: self}

    def _of_app(self, name: str) -> PipelineSpec:
        shared = self.model_dump(exclude_unset=True, exclude={"apps", "budget", "fleet", "admission"})
        own = self.apps[name].model_dump(exclude_unset=True, exclude_none=True, exclude={"reads"})
        if self.fleet is not None and name in self.fleet.node_names:
            own["args"] = self.fleet.arguments
        try:
            spec = PipelineSpec.model_validate(merged(shared, own))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            reason = pydantic_reason(first["msg"])
            raise ValueError(f"apps.{name}.{key}: {reason}" if key else f"apps.{name}.{reason}") from None
        if not spec.script:
            raise ValueError(f"apps.{name}.script: needs a script, here or at the top level")
        if spec.submit.is_external:
            remedy = "make that app a pipeline of its own, or leave it out"
            raise ValueError(f"apps.{name}.submit.launcher: Millrace starts the drivers of several apps; {remedy}")
        spec._app = name
        return spec

    def app_named(self, app: str | None) -> PipelineSpec:
        """Return the spec of one of its apps.

        Args:
            app: The app's name; None if there is only one.

        Raises:
            MillraceError: If there is no such app, or there are several and none is named.
        """
        specs = self.app_specs
        if app is None and len(specs) == 1:
            return next(iter(specs.values()))
        if app is None or app not in specs:
            raise MillraceError("app", app, ", ".join(specs), f"Name an app of {self.name}.")
        return specs[app]

    @property
    def executor_size(self) -> ExecutorSize | None:
        """Size of the app's executors; None if the driver runs everything itself."""
        return None if self.submit.master == LOCAL else ExecutorSize(self.executor.cores, self.executor.memory_mb)

    @property
    def memory_options(self) -> dict[str, object] | None:
        """Options of the optimizer that sizes the memory of executors; None without executors."""
        if self.executor_size is None:
            return None
        least = {name: app.executor.min_memory_mb for name, app in self.app_specs.items()}
        return {
            "min_memory_mb": {name: mb for name, mb in least.items() if mb is not None},
            "max_gc_ratio": self.guards.max_gc_ratio,
        }

    @property
    def field_owners(self) -> dict[str, str]:
        """Owner of each field that a Decision may change."""
        owners = {SLOTS: self.tuner.name, PARALLELISM: self.tuner.name}
        owners |= {EXECUTOR_MEMORY: MEMORY_OPTIMIZER, PLACEMENT: PLACEMENT_OPTIMIZER, MAX_PARALLELISM: SPEC}
        owners |= {BATCH_LIMIT: BATCH_OPTIMIZER}
        if self.admission is not None and self.admission.ingest:
            owners[INGEST] = INGEST_OPTIMIZER
        if self.join is not None:
            owners |= dict.fromkeys(JOIN_FIELDS, JOIN_OPTIMIZER)
        if self.partitioning is not None:
            owners[PARTITION_MAP] = PARTITION_OPTIMIZER
        return {**owners, **self.owners}

    @property
    def config_hash(self) -> str:
        """Hash of the whole spec, stored with each decision."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    @property
    def tuner_options(self) -> tuple[str, dict[str, Any]]:
        """Registry name of the tuner, and its options."""
        return self.tuner.name, self.tuner.options

    @property
    def placement_options(self) -> dict[str, Any] | None:
        """Options of the optimizer that places state partitions; None without the section."""
        return None if self.placement is None else dict(self.placement.options)

    @property
    def partitioning_options(self) -> dict[str, Any] | None:
        """Options of the optimizer that maps keys to workers; None without the section."""
        return None if self.partitioning is None else dict(self.partitioning.options)

    @property
    def admission_options(self) -> dict[str, Any] | None:
        """Options of the optimizer that admits streams; None without the section."""
        if self.admission is None:
            return None
        keys = {"capacity", "ingest", "streams", "sizing", "options"}
        options = self.admission.model_dump(include=keys, exclude_none=True)
        if "sizing" in options:
            options["sizing"] = {"latency_s": self.objective.max_lag_s, **options["sizing"]}
        return options

    @property
    def join_options(self) -> dict[str, Any] | None:
        """Options of the optimizer that sets joins; None without a join."""
        if self.join is None:
            return None
        return {
            "capacity": self.join.capacity,
            "window_s": self.join.window_s,
            "workers": {"min": self.join.workers.min, "max": self.join.workers.max},
            "expected_rows_per_s": self.join.expected_rows_per_s,
            "options": self.join.options,
        }

    @property
    def stream_period_s(self) -> int | None:
        """Length of the periods that input streams are counted in, seconds; None if they are not counted."""
        if self.admission is not None and self.admission.ingest:
            return self.admission.report_s
        return None if self.profile is None else self.profile.period_s

    @property
    def longest_change_s(self) -> float:
        """How long a reconfiguration may take, seconds: stop and start, twice because of a possible rollback."""
        return 2 * (self.ready_deadline_s + self.stop_deadline_s) + 60

    def first_deployment(self) -> Deployment:
        """Return the content of the pipeline's first version."""
        standby = frozenset() if self.fleet is None else self.fleet.standby
        return Deployment(
            pipeline=self.name,
            version=1,
            running=True,
            apps={name: replace(spec.first_app(), standby=name in standby) for name, spec in self.app_specs.items()},
            reason="first launch",
            join=None if self.join is None else self.join.first,
        )

    def first_app(self) -> AppDeployment:
        """Return its app as it is first launched; a join's definition is an argument of its script."""
        args = self.args if self.join is None else (*self.args, f"--join={to_json(self.join.definition)}")
        return AppDeployment(
            script=self.script,
            args=args,
            slots=self.slots.start,
            memory_mb=self.memory_mb,
            max_parallelism=self.max_parallelism,
            submit=self.submit.model_dump(mode="json"),
            executor=self.executor_size,
        )

    def objective_contract(self) -> Objective:
        """Return the objective as the optimizers see it."""
        return Objective(**self.objective.model_dump())

    def bounds_by_app(self, now: datetime | None = None) -> Mapping[str, Bounds]:
        """Return the bounds of each of its apps, by name, as :meth:`bounds_contract` does."""
        return {name: spec.bounds_contract(now) for name, spec in self.app_specs.items()}

    def bounds_contract(self, now: datetime | None = None) -> Bounds:
        """Return the bounds of its one app as the optimizers see them.

        Args:
            now: A time, with a time zone; None for the widest bounds of all times.
        """
        return self.slots.bounds(self.slot_step, now)

    @property
    def slot_step(self) -> int:
        """Slots of one executor of its one app, >= 1: slots are multiples of it."""
        size = self.executor_size
        return 1 if size is None else tasks_at_once(size.cores, self.submit.conf)


def absolute_path(text: str, folder: Path) -> Path:
    """Return a path as an absolute one; if it is relative, it belongs to a folder."""
    path = Path(text).expanduser()
    return path if path.is_absolute() else (folder / path).resolve()

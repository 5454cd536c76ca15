"""The pipeline spec: what a user writes as YAML, checked before anything runs."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from include.model.admission import ADVISER
from include.model.codec import to_json
from include.model.deployment import (
    CHANGEABLE,
    INGEST,
    JOIN_FIELDS,
    PARALLELISM,
    SLOTS,
    AppDeployment,
    Deployment,
)
from include.model.join import ADVISER as JOIN_ADVISER
from include.model.join import JoinDefinition
from include.model.join_spec import Join
from include.model.signals import Bounds, Objective
from include.model.spec_base import NAME, Adapted, Strict

CLOCK = r"(([01]\d|2[0-3]):[0-5]\d|24:00)"
STREAM_JOIN = Path(__file__).resolve().parents[2] / "jobs" / "stream_join.py"
"""The script of a pipeline that is a join."""


class Mode(StrEnum):
    """How far a decision goes by itself."""

    ADVISE = "advise"
    APPROVE = "approve"
    AUTO = "auto"


class Submit(Strict):
    """How the app is submitted; the same words as spark-submit's options."""

    master: str = Field(
        "local",
        pattern=r"^(local|spark://[\w.\-]+:\d+)$",
        description="'local' (slots become local[slots]) or a spark://host:port address",
    )
    packages: tuple[str, ...] = Field((), description="Maven coordinates")
    jars: tuple[str, ...] = Field((), description="Jars beside the five of Delta")
    py_files: tuple[str, ...] = Field((), description="Python files or archives for the executors")
    conf: dict[str, str] = Field(default_factory=dict, description="Spark configuration")
    env: dict[str, str] = Field(default_factory=dict, description="Environment of the driver; never a secret")
    cwd: str | None = Field(None, description="Working folder of the driver; the script's folder by default")
    python: str | None = Field(None, description="Python interpreter of driver and workers")


class Slots(Adapted):
    """Bounds of an app's slots, and the slots of its first start."""


class ObjectiveSpec(Strict):
    """What the owner wants from the pipeline."""

    target_utilisation: Annotated[float, Field(gt=0, le=1)] = 0.8
    max_lag_s: Annotated[float, Field(gt=0)] = 30.0
    catch_up_s: Annotated[float, Field(gt=0)] = 60.0
    max_reconfigurations_per_hour: Annotated[int, Field(ge=0)] = 60


class Tuner(Strict):
    """Which optimizer sizes the app, by registry name, and its options."""

    name: str = "flow"
    options: dict[str, Any] = Field(default_factory=dict)


class GuardsSpec(Strict):
    """What may veto a change."""

    cool_down_s: Annotated[float, Field(ge=0)] = 30.0
    quiet_hours: tuple[Annotated[str, Field(pattern=rf"^{CLOCK}-{CLOCK}$")], ...] = Field(
        (), description="UTC spans such as 22:00-06:00 in which nothing is changed"
    )
    max_total_slots: Annotated[int, Field(ge=1)] | None = Field(None, description="Quota over all pipelines")


class Quality(Strict):
    """What the quality gate accepts."""

    max_age_s: Annotated[float, Field(gt=0)] = 120.0
    max_gap_s: Annotated[float, Field(gt=0)] = 300.0


class KeyedOperator(Strict):
    """A keyed operator that ``profile`` measures: its key columns and number of key groups."""

    name: Annotated[str, Field(pattern=NAME)]
    key: tuple[str, ...]
    key_groups: Annotated[int, Field(ge=1, le=32768)] = 64
    after: tuple[str, ...] | None = Field(None, description="Operators that pass it rows; by default the one before it")


class Profile(Strict):
    """The scheduled batch job that measures key groups, flows and streams on the source table."""

    source: str = Field(description="Folder of the Delta source table; ${MILLRACE_HOME} is replaced")
    time_column: str
    period_s: Annotated[int, Field(ge=1)] = 60
    operators: tuple[KeyedOperator, ...] = ()
    stream: tuple[str, ...] = Field((), description="Columns whose values together name an input stream")
    schedule: str = Field("*/10 * * * *", description="Cron expression of profile_<pipeline>")

    @model_validator(mode="after")
    def _operators_follow_each_other(self) -> Self:
        known: list[str] = []
        for operator in self.operators:
            if operator.name in known:
                raise ValueError(f"operators: {operator.name} is there twice; give each operator a name of its own")
            for first in operator.after or ():
                if first not in known:
                    before = ", ".join(known) or "none"
                    raise ValueError(f"operators.{operator.name}.after: {first} is not among those above it: {before}")
            known.append(operator.name)
        return self

    @property
    def flowing(self) -> tuple[KeyedOperator, ...]:
        """The operators, each with those that pass it rows."""
        names = [(), *((operator.name,) for operator in self.operators)]
        return tuple(
            operator.model_copy(update={"after": before if operator.after is None else operator.after})
            for operator, before in zip(self.operators, names, strict=False)
        )

    @field_validator("schedule")
    @classmethod
    def _is_cron(cls, schedule: str) -> str:
        from croniter import croniter  # Airflow reads the expression with the same library, at import of the DAG

        if not croniter.is_valid(schedule):
            raise PydanticCustomError("cron", "a cron expression of five fields such as */10 * * * *, or @hourly")
        return schedule


class Placement(Strict):
    """On how many nodes the key groups that ``profile`` measures would sit, and what a plan may cost: advice so far."""

    workers: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (1.0, 1.0, 1.0, 1.0), min_length=1, description="Capacity of each node, 1 for an ordinary one"
    )
    periods: Annotated[int, Field(ge=1)] = Field(24, description="Periods of the profile that are averaged")
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the optimizer albic")

    @model_validator(mode="after")
    def _workers_are_told_once(self) -> Self:
        if "workers" in self.options:
            raise ValueError("options: workers does not belong here; it is a key of placement itself")
        return self


Periods = Annotated[float, Field(gt=0)]
Rate = Annotated[float, Field(ge=0)]


class StreamMetadata(Strict):
    """What is known of an input stream beforehand; rates in rows a second, durations in periods of the profile."""

    minimum: Rate | None = None
    maximum: Rate | None = None
    average: Rate | None = None
    high_duration: Periods | None = Field(None, description="From the begin of a rise to that of the fall")
    low_duration: Periods | None = Field(None, description="From the begin of a fall to that of the rise")
    period: Periods | None = Field(None, description="The two together")
    phase: Annotated[float, Field(ge=0)] | None = Field(
        None, description="Period in which a rise begins, from 1970-01-01 UTC: with periods of an hour 6 is 06:00"
    )
    transition: Literal["jump", "trend"] | None = None
    slope_duration: Periods | None = Field(None, description="Periods that a trend takes from one level to the other")
    slope: Periods | None = Field(None, description="The same as change of the rate a period")
    lifetime: Periods | None = Field(None, description="Periods from joining to leaving")


class AdmissionSizing(Strict):
    """What a row costs the workers behind the ingest nodes, measured; all in time of the rows themselves."""

    query_s: Annotated[float, Field(gt=0)] = Field(description="Seconds of a query worker a row")
    merge_s: Annotated[float, Field(ge=0)] = Field(0.0, description="Seconds of a merge worker a partial result")
    partials: Annotated[float, Field(ge=0)] = Field(0.0, description="Partial results a second of a busy query worker")
    through_s: tuple[Rate, Rate, Rate] = Field(
        (0.0, 0.0, 0.0), description="Seconds that a row takes through an idle ingest, query and merge worker"
    )
    headroom: Annotated[float, Field(ge=0, lt=1)] = Field(0.2, description="Share of a worker that stays free")
    latency_s: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Bound of the results' latency; objective.max_lag_s by default"
    )


class Admission(Strict):
    """At which ingest nodes the streams that ``profile`` measures would enter, and how many nodes: advice so far."""

    capacity: Annotated[float, Field(gt=0)] = Field(description="Rows a second of event time that an ingest node takes")
    ingest: tuple[str, ...] = Field(
        (), description="Ingest tables of a feed that redirects its streams by decisions; without them plans are advice"
    )
    report_s: Annotated[int, Field(ge=1)] = Field(10, description="Length of the periods that such a feed reports")
    periods: Annotated[int, Field(ge=1)] = Field(336, description="Most periods that one look takes in, the newest")
    unfinished: Annotated[int, Field(ge=0)] = Field(
        1, description="Newest periods that may still get rows: they wait until newer ones have come"
    )
    streams: dict[str, StreamMetadata] = Field(default_factory=dict, description="What is known of streams, by id")
    sizing: AdmissionSizing | None = None
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the optimizer drfm")


def _needs_a_script_or_a_join(schema: dict[str, Any]) -> None:
    schema["required"].remove("script")
    schema["anyOf"] = [{"required": ["script"]}, {"required": ["join"]}]


class PipelineSpec(Strict):
    """A pipeline: one script run by Millrace, and how it may be adapted."""

    model_config = ConfigDict(json_schema_extra=_needs_a_script_or_a_join)

    name: Annotated[str, Field(pattern=NAME)]
    description: str = ""
    script: str = Field(
        description="The PySpark script, relative to the spec's folder or absolute; a join has one by default"
    )
    args: tuple[str, ...] = Field((), description="Its arguments; ${MILLRACE_HOME} is replaced")
    level: Literal[0, 1, 2] = Field(0, description="What Millrace can change; with a join at least 1, the default then")
    submit: Submit = Submit()
    slots: Slots = Slots()
    memory_mb: Annotated[int, Field(ge=512)] = 1024
    max_parallelism: Annotated[int, Field(ge=1, le=32768)] = 8
    objective: ObjectiveSpec = ObjectiveSpec()
    tuner: Tuner = Tuner()
    owners: dict[str, str] = Field(
        default_factory=dict,
        description="Which optimizer may change a field; by default the tuner, and memory_mb changes by hand only",
    )
    mode: Mode = Mode.ADVISE
    approval_expires_s: Annotated[float, Field(gt=0)] = 3600.0
    period_s: Annotated[float, Field(ge=1)] = 60.0
    guards: GuardsSpec = GuardsSpec()
    quality: Quality = Quality()
    ready_deadline_s: Annotated[float, Field(gt=0)] = Field(
        120.0, description="Longest time in which a driver that is not ready yet may stand still, seconds"
    )
    stop_deadline_s: Annotated[float, Field(gt=0)] = Field(
        60.0, description="From asking a driver to stop until it is killed, seconds"
    )
    hang_deadline_s: Annotated[float, Field(gt=0)] = Field(
        300.0, description="Time after which a driver that does not answer, or stands still, is restarted, seconds"
    )
    batch_deadline_s: Annotated[float, Field(gt=0)] = Field(
        3600.0, description="Longest time that a running batch may show no progress before it counts as standing still"
    )
    profile: Profile | None = None
    placement: Placement | None = None
    admission: Admission | None = None
    join: Join | None = None

    @model_validator(mode="before")
    @classmethod
    def _joins_have_a_script_and_level(cls, told: Any) -> Any:
        if isinstance(told, dict) and told.get("join") is not None:
            return {"script": str(STREAM_JOIN), "level": 1, **told}
        return told

    @model_validator(mode="after")
    def _owned_fields_exist(self) -> Self:
        unknown = sorted(set(self.owners) - set(CHANGEABLE))
        if unknown:
            raise ValueError(f"owners: {', '.join(unknown)} cannot be owned; allowed: {', '.join(CHANGEABLE)}")
        return self

    @model_validator(mode="after")
    def _placed_groups_are_measured(self) -> Self:
        if self.placement is not None and (self.profile is None or not self.profile.operators):
            raise ValueError("placement: needs profile.operators, which say what the key groups are")
        return self

    @model_validator(mode="after")
    def _admitted_streams_are_measured(self) -> Self:
        if self.admission is None:
            return self
        profiled = self.profile is not None and bool(self.profile.stream)
        if self.admission.ingest and profiled:
            raise ValueError("admission: with ingest the feed reports its streams; leave profile.stream out")
        if not self.admission.ingest and not profiled:
            raise ValueError("admission: needs profile.stream, which says what the input streams are, or ingest")
        if len(set(self.admission.ingest)) < len(self.admission.ingest):
            raise ValueError("admission: ingest names a table twice")
        return self

    @model_validator(mode="after")
    def _joins_can_run(self) -> Self:
        if self.join is None:
            return self
        if self.level < 1:
            raise ValueError("level: with a join 1 or 2, as its job obeys changes between batches")
        if self.join.workers.max > self.max_parallelism:
            most = f"max_parallelism, {self.max_parallelism}"
            raise ValueError(f"join.workers.max: at most {most}, as each worker has its own shuffle partition")
        if self.admission is not None or (self.profile is not None and self.profile.stream):
            raise ValueError("join: its job counts the streams itself; leave admission and profile.stream out")
        return self

    @property
    def app(self) -> str:
        """Name of the pipeline's one app (L0 and L1 have one)."""
        return self.name

    @property
    def field_owners(self) -> dict[str, str]:
        """Owner of each field that an optimizer may change."""
        owners = {SLOTS: self.tuner.name, PARALLELISM: self.tuner.name}
        if self.admission is not None and self.admission.ingest:
            owners[INGEST] = ADVISER
        if self.join is not None:
            owners |= dict.fromkeys(JOIN_FIELDS, JOIN_ADVISER)
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
        """Return what the optimizer of key groups is told; None where nobody asks for it."""
        return None if self.placement is None else {"workers": self.placement.workers, **self.placement.options}

    @property
    def admission_options(self) -> dict[str, Any] | None:
        """Return what the optimizer of input streams is told; None where nobody asks for it."""
        if self.admission is None:
            return None
        told = self.admission.model_dump(
            include={"capacity", "ingest", "streams", "sizing", "options"}, exclude_none=True
        )
        if "sizing" in told:
            told["sizing"] = {"latency_s": self.objective.max_lag_s, **told["sizing"]}
        return told

    @property
    def join_definition(self) -> JoinDefinition | None:
        """Return what the job of a join is told; None without one."""
        return None if self.join is None else self.join.definition

    @property
    def join_options(self) -> dict[str, Any] | None:
        """Return what the optimizer of joins is told; None without one."""
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
        """Length of the periods that input streams are counted in, seconds; None where nobody counts them."""
        if self.admission is not None and self.admission.ingest:
            return self.admission.report_s
        return self.profile.period_s if self.profile is not None and self.profile.stream else None

    def first_deployment(self) -> Deployment:
        """Return the content of the pipeline's first version; that of a join holds its definition as an argument."""
        args = self.args if self.join is None else (*self.args, f"--join={to_json(self.join.definition)}")
        app = AppDeployment(
            script=self.script,
            args=args,
            slots=self.slots.start,
            memory_mb=self.memory_mb,
            max_parallelism=self.max_parallelism,
            submit=self.submit.model_dump(mode="json"),
        )
        return Deployment(
            pipeline=self.name,
            version=1,
            running=True,
            apps={self.app: app},
            reason="first launch",
            join=None if self.join is None else self.join.first,
        )

    def objective_contract(self) -> Objective:
        """Return the objective as the optimizers see it."""
        return Objective(**self.objective.model_dump())

    def bounds_contract(self) -> Bounds:
        """Return the bounds as the optimizers see them."""
        return Bounds(self.slots.min, self.slots.max)


def resolve_script(script: str, folder: Path) -> Path:
    """Return the script's absolute path."""
    path = Path(script).expanduser()
    return path if path.is_absolute() else (folder / path).resolve()

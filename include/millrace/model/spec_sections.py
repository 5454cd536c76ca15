"""The sections of a pipeline spec that every pipeline has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from millrace.model.deployment import EXTERNAL
from millrace.model.master import EMBEDDED
from millrace.model.master import PATTERN as MASTER
from millrace.model.objective import Bounds
from millrace.model.quiet_hours import is_empty
from millrace.model.schedule import Window, bounds_at, overlap_from
from millrace.model.spec_base import Adapted, Strict

CLOCK = r"(([01]\d|2[0-3]):[0-5]\d|24:00)"


class Submit(Strict):
    """How the app is submitted; keys have the names of spark-submit's options."""

    launcher: Literal["millrace", "external"] = Field(
        "millrace",
        description="Who starts and stops the driver: 'millrace', or 'external', where the script calls "
        "`millrace.attach` and Millrace changes only executors and the placement of state, see docs/attach.md",
    )

    master: str = Field(
        EMBEDDED,
        pattern=MASTER,
        description="'embedded' (the cluster that ./millrace up starts), the address of your own cluster "
        "(spark://host:port, with several masters spark://a:7077,b:7077; yarn; k8s://host:port), or 'local' (threads "
        "of the driver; a change restarts it)",
    )
    packages: tuple[str, ...] = Field((), description="Maven coordinates")
    connectors: tuple[Literal["kafka"], ...] = Field(
        (), description="Connectors whose jars Millrace pins, downloads and passes to Spark: kafka"
    )
    jars: tuple[str, ...] = Field((), description="Jars in addition to the five of Delta")
    py_files: tuple[str, ...] = Field((), description="Python files or archives for the executors")
    conf: dict[str, str] = Field(default_factory=dict, description="Spark configuration")
    env: dict[str, str] = Field(default_factory=dict, description="Environment of the driver; not for secrets")
    secrets: dict[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], str] = Field(
        default_factory=dict,
        description="Variables of the driver that hold secrets, each with its source: a file, `airflow:variable/NAME`, "
        "or `airflow:connection/ID` (its password); only the source is recorded",
    )
    cwd: str | None = Field(None, description="Working folder of the driver; by default the script's folder")
    python: str | None = Field(
        None,
        description="Python interpreter of the driver and its Python workers. If its environment has a PySpark of its "
        "own (3.5 to 4.3), that is used; it needs `pip install '/path/to/a/clone/of/millrace[driver]'`",
    )
    tune_batches: bool = Field(
        False,
        description="Let Millrace raise maxFilesPerTrigger, maxOffsetsPerTrigger and maxBytesPerTrigger of the "
        "script's sources if batches are too small to keep up; each change restarts the driver",
    )

    @property
    def is_external(self) -> bool:
        """Whether somebody else starts and stops the driver."""
        return self.launcher == EXTERNAL


class Executor(Strict):
    """Size of an executor on a cluster; slots change by whole executors, while the query runs."""

    cores: int = Field(1, ge=1, description="Cores; an executor runs cores / `spark.task.cpus` tasks at once")
    memory_mb: int = Field(1024, ge=512, description="Heap, MiB")
    min_memory_mb: Annotated[int, Field(ge=512)] | None = Field(
        None, description="Heap to which Millrace may lower it, MiB; without it, the heap is only raised"
    )

    @model_validator(mode="after")
    def _least_is_no_more(self) -> Self:
        if self.min_memory_mb is not None and self.min_memory_mb > self.memory_mb:
            raise ValueError(f"min_memory_mb, {self.min_memory_mb}, is more than memory_mb, {self.memory_mb}")
        return self


class Slots(Adapted):
    """Bounds of the app's slots, and their number at the first start."""

    schedule: tuple[Window, ...] = Field((), description="Times with other bounds, by cron expressions and time zone")

    @model_validator(mode="after")
    def _windows_fit(self) -> Self:
        for index, window in enumerate(self.schedule):
            least = self.min if window.min is None else window.min
            most = self.max if window.max is None else window.max
            if least > most:
                raise ValueError(f"schedule.{index}: min, {least}, is more than max, {most}; set both in the window")
        found = overlap_from(datetime.now(UTC).date(), self.schedule)
        if found is not None:
            first, second, at = found
            both = f"windows {first} and {second} are both open at {at:%Y-%m-%d %H:%M} {at.tzinfo}"
            raise ValueError(f"schedule: {both}; let one end before the other starts")
        return self

    @property
    def highest_min(self) -> int:
        """The most slots that a minimum ever asks for."""
        return max((self.min, *(window.min for window in self.schedule if window.min is not None)))

    def bounds(self, step: int, now: datetime | None) -> Bounds:
        """Return the allowed slots at a time; the widest of all times without one.

        Args:
            step: Slots of one executor, >= 1.
            now: The time, with a time zone.
        """
        if now is not None:
            return bounds_at(Bounds(self.min, self.max, step), self.schedule, now)
        least = (window.min for window in self.schedule if window.min is not None)
        most = (window.max for window in self.schedule if window.max is not None)
        return Bounds(min((self.min, *least)), max((self.max, *most)), step)


class ObjectiveSpec(Strict):
    """Goals for the pipeline."""

    target_utilisation: float = Field(0.8, gt=0, le=1, description="Arrival / capacity that slots are chosen for")
    max_lag_s: float = Field(
        30.0,
        gt=0,
        description="Longest time that a row may wait, from its arrival to the end of its batch, seconds; twice the "
        "trigger's interval if that interval is at least as long",
    )
    catch_up_s: float = Field(
        60.0,
        gt=0,
        description="Time in which a backlog must be processed, seconds; the trigger's interval if that is longer",
    )
    max_reconfigurations_per_hour: int = Field(60, ge=0, description="Most changes per hour; 0 forbids them")


class Tuner(Strict):
    """The optimizer that sizes the app, by registry name, and its options."""

    name: str = Field("flow", description="Registry name; docs/tuners.md lists all")
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the tuner")


class GuardsSpec(Strict):
    """Limits that can veto a change."""

    cool_down_s: float = Field(
        30.0, ge=0, description="Shortest time from a change to the next one with a restart, seconds"
    )
    quiet_hours: tuple[Annotated[str, Field(pattern=rf"^{CLOCK}-{CLOCK}$")], ...] = Field(
        (), description="UTC spans without changes, such as 22:00-06:00"
    )
    max_total_slots: Annotated[int, Field(ge=1)] | None = Field(None, description="Quota of slots over all pipelines")
    max_gc_ratio: float = Field(
        0.25, gt=0, le=1, description="Share of tasks' time in garbage collection above which slots are not lowered"
    )

    @field_validator("quiet_hours")
    @classmethod
    def _spans_contain_a_time(cls, spans: tuple[str, ...]) -> tuple[str, ...]:
        if empty := [span for span in spans if is_empty(span)]:
            raise ValueError(f"spans that contain a time; {empty[0]} is empty, and the whole day is 00:00-24:00")
        return spans


class Cost(Strict):
    """Price of slots; the page *Millrace* and replays then also show money."""

    core_hour: float = Field(gt=0, description="Price of one slot for an hour")
    currency: str = Field("", max_length=8, description="Shown after amounts, such as EUR")

    def of(self, core_hours: float) -> str:
        """Return the price of some core-hours, such as ``0.49 EUR``; below 0.01 with two significant digits."""
        amount = core_hours * self.core_hour
        shown = f"{amount:,.2f}" if amount >= 0.01 or amount == 0 else f"{amount:.2g}"
        return f"{shown} {self.currency}".strip()


class Quality(Strict):
    """Limits of the quality gate for telemetry."""

    max_age_s: float = Field(
        120.0, gt=0, description="Maximum age of the newest telemetry, seconds; more if batches are far apart"
    )
    max_gap_s: float = Field(
        300.0,
        gt=0,
        description="Maximum gap in the telemetry under evaluation, seconds, plus the trigger's interval",
    )

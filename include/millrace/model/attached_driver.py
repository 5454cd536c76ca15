"""What a driver says of itself if Millrace did not start it: its heartbeat, in ``telemetry/apps``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from millrace.model.deployment import AppDeployment

EXECUTOR_CORES, EXECUTOR_MEMORY = "spark.executor.cores", "spark.executor.memory"
DRIVER_MEMORY = "spark.driver.memory"
UNITS_KIB = {"k": 1, "m": 1 << 10, "g": 1 << 20, "t": 1 << 30}


@dataclass(frozen=True)
class AttachedDriver:
    """A driver that a script attached.

    Attributes:
        name: How a person finds it: its application, host and process.
        version: The Deployment version whose executors and placement it has; 0 before the first.
        slots: Tasks that it can run at once.
        every_s: Time between two heartbeats, seconds.
        settings: Its Spark settings that only a restart changes, by name.
        resized: When it reached its current executors (UTC); None before their first change.
        unable: Why it cannot change its executors, as a sentence; empty if it can.
        ended: Whether it has ended.
        spark_application: Namespace and name of the SparkApplication that it comes from; empty if there is none.
        awaits: Why executors that it requested are missing, as a sentence; empty if none is, or if that is not known.
    """

    name: str
    version: int
    slots: int
    every_s: float
    settings: Mapping[str, str] = field(default_factory=dict)
    resized: datetime | None = None
    unable: str = ""
    ended: bool = False
    spark_application: str = ""
    awaits: str = ""


def settings_of(app: AppDeployment) -> dict[str, str]:
    """Return the Spark settings that an app's content needs and that only a restart can change, by name."""
    of_executors = {}
    if app.executor is not None:
        of_executors = {EXECUTOR_CORES: str(app.executor.cores), EXECUTOR_MEMORY: f"{app.executor.memory_mb}m"}
    own = {str(name): str(value) for name, value in app.conf.items()}
    return {**own, DRIVER_MEMORY: f"{app.memory_mb}m", **of_executors}


def settings_to_change(app: AppDeployment, present: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a driver must be restarted with, by name.

    Args:
        app: The app as its newest Deployment wants it.
        present: The driver's settings. A setting that it did not report is not compared.
    """
    wanted = settings_of(app)
    return {name: value for name, value in wanted.items() if name in present and not _same(value, present[name])}


def _same(wanted: str, present: str) -> bool:
    return wanted == present or (kib(wanted) is not None and kib(wanted) == kib(present))


def kib(text: str) -> int | None:
    """Return a size such as ``2g`` or ``2048m`` in KiB; None if it is no size with a unit."""
    number, unit = text.strip().lower().removesuffix("b")[:-1], text.strip().lower().removesuffix("b")[-1:]
    return int(number) * UNITS_KIB[unit] if number.isdecimal() and unit in UNITS_KIB else None

"""The sections of a pipeline of several apps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any

from pydantic import Field

from millrace.model.schedule import Window
from millrace.model.spec_base import NAME, Count, Strict

AppName = Annotated[str, Field(pattern=NAME)]
SHARED = ("join", "admission", "profile", "placement", "partitioning")
"""Sections that work on the one app of their pipeline."""


class AppSlots(Strict):
    """Slots of one app. Keys that are left out have the values of `slots` at the top level."""

    min: Count | None = Field(None, description="Minimum")
    max: Count | None = Field(None, description="Maximum")
    start: Count | None = Field(None, description="Number at the first start")
    schedule: tuple[Window, ...] | None = Field(None, description="Times with other bounds")


class AppExecutor(Strict):
    """Executors of one app. Keys that are left out have the values of `executor` at the top level."""

    cores: Annotated[int, Field(ge=1)] | None = Field(None, description="Cores")
    memory_mb: Annotated[int, Field(ge=512)] | None = Field(None, description="Heap, MiB")
    min_memory_mb: Annotated[int, Field(ge=512)] | None = Field(
        None, description="Heap to which Millrace may lower it, MiB"
    )


class AppSection(Strict):
    """One app. Keys that are left out have the values of the top level."""

    script: str | None = Field(None, description="PySpark script, absolute or relative to the spec's folder")
    args: tuple[str, ...] | None = Field(None, description="Arguments of the script")
    submit: dict[str, Any] | None = Field(
        None,
        description="Keys of `submit` that differ from the top level, and entries of `conf` and `env` that it changes",
    )
    slots: AppSlots | None = Field(None, description="Keys of `slots` that differ from the top level")
    executor: AppExecutor | None = Field(None, description="Keys of `executor` that differ from the top level")
    memory_mb: Annotated[int, Field(ge=512)] | None = Field(None, description="Driver memory, MiB")
    max_parallelism: Annotated[int, Field(ge=1, le=32768)] | None = Field(None, description="Shuffle partitions")
    reads: tuple[AppName, ...] = Field(
        (), description="Apps whose output it reads, if a sink does not show it, such as foreachBatch"
    )


class Budget(Strict):
    """Limits that the apps of a pipeline share."""

    slots: Annotated[int, Field(ge=1)] = Field(description="Most slots of all apps together")


def merged(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return shared keys with an app's own, also within mappings; the own key wins."""
    result = dict(shared)
    for key, value in own.items():
        before = result.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = merged(before, value)
        result[key] = value
    return result


def cycle(reads: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the apps of a cycle, first and last the same; an empty list if there is none."""
    try:
        TopologicalSorter(reads).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []

"""A join's definition, checked against the streams' columns and ready for the tasks of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from include.model.errors import MillraceError
from include.model.join import JoinDefinition, JoinSettings, JoinTask

LEFT, RIGHT = "left", "right"


@dataclass(frozen=True)
class Plan:
    """What router, workers and sink share.

    Attributes:
        definition: The join.
        schemas: Arrow schema of each stream's tuples, times and conditions included, by stream.
        folder: Folder of the terms.
        keys: State key of each worker: Spark's hash brings each to a partition of its own.
    """

    definition: JoinDefinition
    schemas: Mapping[str, pa.Schema]
    folder: Path
    keys: tuple[int, ...]
    numbers: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", {s.name: i for i, s in enumerate(self.definition.streams)})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the streams, by their numbers."""
        return tuple(self.numbers)

    def bounded(self, settings: JoinSettings) -> JoinSettings:
        """Return settings that the query can obey: it has a partition of state for so many workers and no more."""
        workers = min(max(settings.workers, 1), len(self.keys))
        block = min(max(settings.block, 1), max(1, self.definition.capacity // 2))
        return JoinSettings(workers, block, min(max(settings.shed, 0.0), 1.0))

    def expires(self, clocks: Mapping[str, int]) -> dict[str, int | None]:
        """Return the oldest event time of each stream that can still find partners; None where all can.

        A stream's clock is its newest event time. A partner may come as late as its own stream allows, so a stream
        that stands still, or whose clock is behind, keeps the tuples that wait for it.

        Args:
            clocks: Newest event time by stream, microseconds.
        """
        late_s = {s.name: s.late_s for s in self.definition.streams}
        bounds: dict[str, list[int | None]] = {name: [] for name in late_s}
        for task in self.definition.tasks:
            for stream, partner, reach_s in (
                (task.left, task.right, task.before_s),
                (task.right, task.left, -task.after_s),
            ):
                clock = clocks.get(partner)
                bounds[stream].append(None if clock is None else clock - micros(late_s[partner] + reach_s))
        return {stream: _least(told) for stream, told in bounds.items()}


def _least(bounds: list[int | None]) -> int | None:
    known = [b for b in bounds if b is not None]
    return min(known) if known and len(known) == len(bounds) else None


def output_schema(plan: Plan, task: JoinTask) -> pa.Schema:
    """Return the schema of a task's results: ``left_`` and ``right_`` before each stream's columns and its time."""
    sides = ((LEFT, task.left), (RIGHT, task.right))
    fields = [
        pa.field(f"{side}_{name}", kind) for side, stream in sides for name, kind in shown(plan, stream)
    ]  # fmt: skip
    return pa.schema(fields)


def shown(plan: Plan, stream: str) -> list[tuple[str, pa.DataType]]:
    """Return the columns of a stream that results have, and their types."""
    columns = next(s.columns for s in plan.definition.streams if s.name == stream)
    schema = plan.schemas[stream]
    return [("time", pa.timestamp("us", "UTC")), *((name, schema.field(name).type) for name in columns)]


def check(plan: Plan) -> None:
    """Refuse tasks whose key columns cannot be compared.

    Raises:
        MillraceError: If a column is missing or two are of different types.
    """
    for task in plan.definition.tasks:
        left, right = plan.schemas[task.left], plan.schemas[task.right]
        for a, b in task.on:
            for name, schema, stream in ((a, left, task.left), (b, right, task.right)):
                if name not in schema.names:
                    allowed = ", ".join(n for n in schema.names if not n.startswith("_"))
                    at = f"tasks.{task.name}.on"
                    raise MillraceError(at, name, allowed, f"Name a column of {stream}, or add it to its columns.")
            kinds = left.field(a).type, right.field(b).type
            if kinds[0] != kinds[1]:
                value = f"{a} {kinds[0]}, {b} {kinds[1]}"
                raise MillraceError(f"tasks.{task.name}.on", value, "columns of one type", "Cast one in its stream.")


def micros(seconds: float) -> int:
    """Return seconds as microseconds."""
    return round(seconds * 1_000_000)

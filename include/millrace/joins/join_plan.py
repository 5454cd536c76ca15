"""A join's definition, checked against the streams' columns and ready for Spark's tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from millrace.model.errors import MillraceError
from millrace.model.join import MP2PF, JoinDefinition, JoinSettings, JoinTask

TIME = "_time"
"""Event time of a tuple, microseconds since 1970."""


@dataclass(frozen=True)
class JoinPlan:
    """What router, workers and sink share while the query runs.

    Attributes:
        definition: The join.
        schemas: Arrow schema of each stream's tuples, including times and conditions, by stream.
        folder: Folder of the batch plans.
        keys: State key of each worker. Spark's hash maps each key to its own partition.
        numbers: Number of each stream by name, in the order of the definition.
        sides: End of the chain where each stream enters, by its number: 0 on the left, 1 on the right. Empty if blocks
            are broadcast.
    """

    definition: JoinDefinition
    schemas: Mapping[str, pa.Schema]
    folder: Path
    keys: tuple[int, ...]
    numbers: Mapping[str, int] = field(init=False)
    sides: Mapping[int, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", {s.name: i for i, s in enumerate(self.definition.streams)})
        sides = self.definition.sides() if self.definition.forwarding == MP2PF else {}
        object.__setattr__(self, "sides", {self.numbers[name]: side for name, side in sides.items()})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the streams, in the order of their numbers."""
        return tuple(self.numbers)

    def entering(self, side: int) -> list[int]:
        """Return the numbers of the streams that enter the chain at one end."""
        return [stream for stream, of in self.sides.items() if of == side]

    def bounded(self, settings: JoinSettings) -> JoinSettings:
        """Limit the settings to what the query can do: each worker needs its own state partition."""
        workers = min(max(settings.workers, 1), len(self.keys))
        block = min(max(settings.block, 1), max(1, self.definition.capacity // 2))
        return JoinSettings(workers, block, min(max(settings.shed, 0.0), 1.0))

    def oldest_live(self, clocks: Mapping[str, int]) -> dict[str, int | None]:
        """Return the oldest event time of each stream that can still find partners; None if all tuples can.

        A partner may be as late as its own stream allows. If a stream stops or its clock falls behind, the other
        streams therefore keep the tuples that wait for it.

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
        return {stream: _least(of_stream) for stream, of_stream in bounds.items()}

    def result_columns(self, stream: str) -> list[tuple[str, pa.DataType]]:
        """Return the names and types of a stream's columns in the results."""
        columns = next(s.columns for s in self.definition.streams if s.name == stream)
        schema = self.schemas[stream]
        return [("time", pa.timestamp("us", "UTC")), *((name, schema.field(name).type) for name in columns)]

    def result_schema(self, task: JoinTask) -> pa.Schema:
        """Return the schema of a task's results; ``left_`` and ``right_`` prefix each stream's columns and time."""
        sides = (("left", task.left), ("right", task.right))
        return pa.schema([(f"{side}_{name}", kind) for side, of in sides for name, kind in self.result_columns(of)])

    def check_keys(self) -> None:
        """Check that each task's key columns can be compared.

        Raises:
            MillraceError: If a column is missing or two columns have different types.
        """
        for task in self.definition.tasks:
            at = f"tasks.{task.name}.on"
            left, right = self.schemas[task.left], self.schemas[task.right]
            for a, b in task.on:
                for name, schema, stream in ((a, left, task.left), (b, right, task.right)):
                    if name not in schema.names:
                        allowed = ", ".join(n for n in schema.names if not n.startswith("_"))
                        raise MillraceError(at, name, allowed, f"Name a column of {stream}, or add it to its columns.")
                kinds = left.field(a).type, right.field(b).type
                if kinds[0] != kinds[1]:
                    value = f"{a} {kinds[0]}, {b} {kinds[1]}"
                    raise MillraceError(at, value, "columns of one type", "Cast one in its stream.")


def _least(bounds: list[int | None]) -> int | None:
    certain = [b for b in bounds if b is not None]
    return min(certain) if certain and len(certain) == len(bounds) else None


def micros(seconds: float) -> int:
    """Return seconds as microseconds."""
    return round(seconds * 1_000_000)

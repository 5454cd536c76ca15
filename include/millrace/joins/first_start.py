"""What a join's checkpoint keeps from its first start: the order of streams and columns, forwarding, state keys.

Tuples of the window are stored with the number of their stream, and their values in the order of its columns. Spark
also finds the streams of its checkpoint by their order. ``join.json``, next to the batch plans, contains these orders;
its fields are part of the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from millrace.atomic_file import write_atomically
from millrace.joins.matching import condition
from millrace.model.codec import from_json, to_plain
from millrace.model.errors import MillraceError
from millrace.model.join import BROADCAST, MP2PF, JoinDefinition

FILE = "join.json"
RESTART = "Name a new checkpoint and a new results folder"


@dataclass(frozen=True)
class FirstStart:
    """The join that a checkpoint belongs to.

    Attributes:
        streams: Arrow schema of each stream's tuples as text, by stream, in the order of their numbers.
        keys: State key of each worker.
        forwarding: How new tuples reach the workers.
        sides: End of the chain where each stream enters; None without a chain, or if 0.2.0 started it.
    """

    streams: Mapping[str, str]
    keys: tuple[int, ...]
    forwarding: str = BROADCAST
    sides: Mapping[str, int] | None = None

    @classmethod
    def of(cls, definition: JoinDefinition, schemas: Mapping[str, pa.Schema], keys: tuple[int, ...]) -> FirstStart:
        """Return what a checkpoint without tuples will keep."""
        texts = {stream.name: str(schemas[stream.name]) for stream in definition.streams}
        return cls(texts, keys, definition.forwarding, _sides(definition))

    @classmethod
    def read(cls, folder: Path) -> FirstStart | None:
        """Return what a checkpoint keeps; None before its first start."""
        file = folder / FILE
        return from_json(cls, file.read_text(encoding="utf-8")) if file.exists() else None

    def write(self, folder: Path) -> None:
        """Store it in a checkpoint."""
        # not the codec's text, which sorts the streams
        write_atomically(folder / FILE, json.dumps(to_plain(self)), mode=None, key="checkpoint")

    def with_sides(self, definition: JoinDefinition) -> FirstStart:
        """Return it with the sides of its streams, which 0.2.0 did not store."""
        return replace(self, sides=_sides(definition))

    def continued(self, definition: JoinDefinition) -> JoinDefinition:
        """Return a definition with its streams in the order of the checkpoint.

        Raises:
            MillraceError: If its streams or their way through the workers are others.
        """
        if {stream.name for stream in definition.streams} != set(self.streams):
            allowed = f"streams {', '.join(self.streams)}"
            raise MillraceError("checkpoint", definition.checkpoint, allowed, f"{RESTART}: the join has other streams.")
        if self.forwarding != definition.forwarding:
            remedy = f"{RESTART}, or keep the forwarding: pairs would meet twice."
            allowed = f"a checkpoint of a join with forwarding: {definition.forwarding}"
            raise MillraceError("checkpoint", definition.checkpoint, allowed, remedy)
        order = list(self.streams)
        ordered = replace(definition, streams=tuple(sorted(definition.streams, key=lambda s: order.index(s.name))))
        if self.sides is not None and self.sides != _sides(ordered):
            remedy = f"{RESTART}, or keep the tasks: streams would enter the chain at another end and miss partners."
            allowed = f"tasks with which the streams enter at {dict(self.sides)}"
            raise MillraceError("checkpoint", definition.checkpoint, allowed, remedy)
        return ordered

    def stored(self, definition: JoinDefinition, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Schema]:
        """Return the streams' schemas with their columns in the order of the checkpoint.

        Columns may become nullable and get other comments, but neither other names nor other types.

        Raises:
            MillraceError: If a stream has other columns.
        """
        ordered = {}
        for stream, schema in schemas.items():
            before, now = _types(self.streams[stream]), _types(str(schema))
            if changed := [name for name in {**before, **now} if before.get(name) != now.get(name)]:
                allowed = f"unchanged columns of {stream}"
                remedy = f"{RESTART}: the tuples of the stored window differ in {', '.join(map(_of_spec, changed))}."
                raise MillraceError("checkpoint", definition.checkpoint, allowed, remedy)
            ordered[stream] = pa.schema([schema.field(name) for name in before])
        return ordered


def _of_spec(column: str) -> str:
    """Return a column of the window as the spec calls it."""
    for side in ("left", "right"):
        if column.startswith(condition("", side)):
            return f"{side}_where of task {column.removeprefix(condition('', side))}"
    return column


def _types(schema: str) -> dict[str, str]:
    """Return the type of each column in a schema's text, nullable or not; indented lines only add details."""
    columns = (line.partition(": ") for line in schema.splitlines() if line[:1].strip())
    return {name: kind.removesuffix(" not null") for name, _, kind in columns}


def _sides(definition: JoinDefinition) -> dict[str, int] | None:
    return definition.sides() if definition.forwarding == MP2PF else None

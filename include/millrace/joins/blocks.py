"""Blocks of tuples that the router sends to the workers, and sets of tuples that workers keep and hand over.

A block is serialised once and sent to each worker, so larger blocks make each tuple cheaper to send.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Times = npt.NDArray[np.int64]

NEVER = np.iinfo(np.int64).min
"""Newest event time of a block if no tuple has an event time."""


class Block(NamedTuple):
    """A block that the router sends to a worker.

    Attributes:
        stream: Number of its stream.
        part: Number of the router task that cut it.
        number: Its number within that task.
        rows: Number of tuples.
        late: Tuples dropped because they were too late or had no event time.
        newest: Newest event time, shed and late tuples included.
        tuples: Its tuples, serialised.
        shed: Event times of the shed tuples, serialised.
    """

    stream: int
    part: int
    number: int
    rows: int
    late: int
    newest: int
    tuples: bytes
    shed: bytes

    @property
    def order(self) -> tuple[int, int, int]:
        """Key by which all workers sort the blocks of a batch."""
        return self.stream, self.part, self.number

    @property
    def shed_rows(self) -> int:
        """Number of shed tuples."""
        return len(self.shed) // 8


_TYPES = {"int": pa.int32(), "long": pa.int64(), "binary": pa.binary()}
_COLUMNS = ("int", "int", "int", "int", "int", "long", "binary", "binary")
_FIELDS = (("key", "int"), *zip(Block._fields, _COLUMNS, strict=True))
ARROW = pa.schema([(name, _TYPES[kind]) for name, kind in _FIELDS])
"""Arrow schema of a worker's key and a block for it."""
DDL = ", ".join(f"{name} {kind}" for name, kind in _FIELDS)
"""The same schema as Spark DDL."""


@dataclass(frozen=True)
class Kept:
    """Tuples of a stream that a worker keeps, and the event times of those it would have kept without shedding.

    Attributes:
        tuples: The tuples.
        shed: Event times of the shed tuples.
    """

    tuples: pa.Table
    shed: Times

    @property
    def empty(self) -> bool:
        """Whether the set has neither kept nor shed tuples."""
        return not self.tuples.num_rows and not len(self.shed)


def rows_of(sets: Mapping[int, Kept]) -> int:
    """Return the number of tuples of several streams."""
    return sum(kept.tuples.num_rows for kept in sets.values())


def concat(sets: list[Kept]) -> Kept:
    """Combine several sets of one stream, at least one."""
    return Kept(pa.concat_tables([s.tuples for s in sets]), np.concatenate([s.shed for s in sets]))


def pack(tuples: pa.Table) -> bytes:
    """Serialise tuples of a known schema; no tuples become empty bytes."""
    if not tuples.num_rows:
        return b""
    (batch,) = tuples.combine_chunks().to_batches()
    return bytes(batch.serialize())


def unpack(tuples: bytes, schema: pa.Schema) -> pa.Table:
    """Restore tuples from :func:`pack`."""
    batches = [pa.ipc.read_record_batch(pa.py_buffer(tuples), schema)] if tuples else []
    return pa.Table.from_batches(batches, schema)


def pack_times(times: Times) -> bytes:
    """Serialise event times."""
    return times.astype("<i8").tobytes()


def unpack_times(times: bytes) -> Times:
    """Restore event times from :func:`pack_times`."""
    return np.frombuffer(times, "<i8").astype(np.int64, copy=False)


def pack_kept(sets: Mapping[int, Kept]) -> bytes:
    """Serialise the tuples of several streams for a hand-over, by stream number."""
    parts = [(number, pack(k.tuples), pack_times(k.shed)) for number, k in sorted(sets.items())]
    head = json.dumps([[number, len(tuples), len(shed)] for number, tuples, shed in parts]).encode()
    return len(head).to_bytes(4, "little") + head + b"".join(tuples + shed for _, tuples, shed in parts)


def unpack_kept(content: bytes, schemas: Mapping[int, pa.Schema]) -> dict[int, Kept]:
    """Restore tuples from :func:`pack_kept`."""
    at = 4 + int.from_bytes(content[:4], "little")
    head: list[Any] = json.loads(content[4:at])
    sets = {}
    for number, tuples, shed in head:
        middle, end = at + tuples, at + tuples + shed
        sets[number] = Kept(unpack(content[at:middle], schemas[number]), unpack_times(content[middle:end]))
        at = end
    return sets


class HandOver(NamedTuple):
    """Tuples that one worker hands to another.

    Attributes:
        source: Worker that hands them over.
        left: Number of tuples that enter a chain on the left; all of them if blocks are broadcast.
        right: Number of tuples that enter it on the right.
    """

    source: int
    left: int
    right: int = 0

    def write(self) -> bytes:
        """Serialise the hand-over."""
        return struct.pack("<iqq", *self)

    @classmethod
    def read(cls, content: bytes) -> HandOver:
        """Restore a hand-over from :meth:`write`."""
        return cls(*struct.unpack("<iqq", content))

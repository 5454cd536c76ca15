"""Blocks of tuples on their way from the router to the workers, and sets of tuples that workers keep and hand over.

A block is serialised once and sent to each worker, so what a tuple costs on the way falls with the block size.
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
"""Newest event time of a block in which no tuple has one."""


class Block(NamedTuple):
    """A block on its way to a worker.

    Attributes:
        stream: Number of its stream.
        part: Number of the router's task that cut it.
        number: Its number there.
        rows: Tuples in it.
        late: Tuples that came too late and are dropped.
        newest: Newest event time among all that came with it.
        tuples: Its tuples, serialised.
        shed: Event times of the tuples that were shed, serialised.
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
        """What all workers order the blocks of a batch by."""
        return self.stream, self.part, self.number

    @property
    def shed_rows(self) -> int:
        """Tuples that were shed."""
        return len(self.shed) // 8


_TYPES = {"int": pa.int32(), "long": pa.int64(), "binary": pa.binary()}
_COLUMNS = ("int", "int", "int", "int", "int", "long", "binary", "binary")
_FIELDS = (("key", "int"), *zip(Block._fields, _COLUMNS, strict=True))
ARROW = pa.schema([(name, _TYPES[kind]) for name, kind in _FIELDS])
"""A worker's key and a block for it, a column each."""
DDL = ", ".join(f"{name} {kind}" for name, kind in _FIELDS)
"""The same as Spark writes it."""


@dataclass(frozen=True)
class Kept:
    """Tuples of a stream that a worker keeps, and what it would keep had nothing been shed.

    Attributes:
        tuples: The tuples.
        shed: Event times of those that were shed.
    """

    tuples: pa.Table
    shed: Times

    @property
    def empty(self) -> bool:
        """Whether there is nothing, not even something shed."""
        return not self.tuples.num_rows and not len(self.shed)


def concat(sets: list[Kept]) -> Kept:
    """Return several sets of a stream, at least one, as one."""
    return Kept(pa.concat_tables([s.tuples for s in sets]), np.concatenate([s.shed for s in sets]))


def pack(tuples: pa.Table) -> bytes:
    """Serialise tuples of a known schema; none become nothing."""
    if not tuples.num_rows:
        return b""
    (batch,) = tuples.combine_chunks().to_batches()
    return bytes(batch.serialize())


def unpack(tuples: bytes, schema: pa.Schema) -> pa.Table:
    """Return what :func:`pack` wrote."""
    batches = [pa.ipc.read_record_batch(pa.py_buffer(tuples), schema)] if tuples else []
    return pa.Table.from_batches(batches, schema)


def pack_times(times: Times) -> bytes:
    """Serialise event times."""
    return times.astype("<i8").tobytes()


def unpack_times(times: bytes) -> Times:
    """Return what :func:`pack_times` wrote."""
    return np.frombuffer(times, "<i8").astype(np.int64, copy=False)


def pack_kept(sets: Mapping[int, Kept]) -> bytes:
    """Serialise tuples of several streams, by stream number, to be handed over."""
    parts = [(number, pack(k.tuples), pack_times(k.shed)) for number, k in sorted(sets.items())]
    head = json.dumps([[number, len(tuples), len(shed)] for number, tuples, shed in parts]).encode()
    return len(head).to_bytes(4, "little") + head + b"".join(tuples + shed for _, tuples, shed in parts)


def unpack_kept(content: bytes, schemas: Mapping[int, pa.Schema]) -> dict[int, Kept]:
    """Return what :func:`pack_kept` wrote."""
    at = 4 + int.from_bytes(content[:4], "little")
    head: list[Any] = json.loads(content[4:at])
    sets = {}
    for number, tuples, shed in head:
        middle, end = at + tuples, at + tuples + shed
        sets[number] = Kept(unpack(content[at:middle], schemas[number]), unpack_times(content[middle:end]))
        at = end
    return sets


class HandOver(NamedTuple):
    """Tuples on their way from one worker to another.

    Attributes:
        source: Who gives them.
        tuples: How many.
        content: They, serialised.
    """

    source: int
    tuples: int
    content: bytes

    def write(self) -> bytes:
        """Serialise the hand-over."""
        return struct.pack("<iq", self.source, self.tuples) + self.content

    @classmethod
    def read(cls, content: bytes) -> HandOver:
        """Return what :meth:`write` wrote."""
        head = struct.calcsize("<iq")
        source, tuples = struct.unpack("<iq", content[:head])
        return cls(source, tuples, content[head:])

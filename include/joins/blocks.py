"""Blocks of tuples as they pass from the router to the workers, and sets of tuples as workers keep and hand them over.

A block is serialised once and sent to each worker, so what a tuple costs on the way falls with the block size.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Times = npt.NDArray[np.int64]

BLOCK = "key int, stream int, part int, number int, rows int, late int, newest long, tuples binary, shed binary"
"""Spark schema of a block on its way to a worker."""
ARROW = pa.schema(
    [
        ("key", pa.int32()),
        ("stream", pa.int32()),
        ("part", pa.int32()),
        ("number", pa.int32()),
        ("rows", pa.int32()),
        ("late", pa.int32()),
        ("newest", pa.int64()),
        ("tuples", pa.binary()),
        ("shed", pa.binary()),
    ]
)
NEVER = np.iinfo(np.int64).min
"""Newest event time of a block in which no tuple has one."""


@dataclass(frozen=True)
class Block:
    """A block that reached a worker.

    Attributes:
        stream: Number of its stream.
        part: Number of the router's task that made it.
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


@dataclass(frozen=True)
class Kept:
    """Tuples of a stream that a worker keeps, and what it would keep had nothing been shed.

    Attributes:
        tuples: The tuples.
        shed: Event times of those that were shed.
    """

    tuples: pa.Table
    shed: Times


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


def pack_kept(kept: Mapping[int, Kept]) -> bytes:
    """Serialise tuples of several streams, by stream number, to be handed over."""
    parts = [(number, pack(k.tuples), pack_times(k.shed)) for number, k in sorted(kept.items())]
    head = json.dumps([[number, len(tuples), len(shed)] for number, tuples, shed in parts]).encode()
    return len(head).to_bytes(4, "little") + head + b"".join(tuples + shed for _, tuples, shed in parts)


def unpack_kept(content: bytes, schemas: Mapping[int, pa.Schema]) -> dict[int, Kept]:
    """Return what :func:`pack_kept` wrote."""
    at = 4 + int.from_bytes(content[:4], "little")
    head: list[Any] = json.loads(content[4:at])
    found = {}
    for number, tuples, shed in head:
        middle, end = at + tuples, at + tuples + shed
        found[number] = Kept(unpack(content[at:middle], schemas[number]), unpack_times(content[middle:end]))
        at = end
    return found


@dataclass(frozen=True)
class HandOver:
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

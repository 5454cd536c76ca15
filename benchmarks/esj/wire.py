"""A chain's messages as bytes: each message is really serialised and read again.

A message consists of its numbers (pickle, protocol 5). A block adds an Arrow record batch of the tuples' columns
without its schema, which both ends know. A tuple has a time, a key, a count and a value: 32 bytes unserialised.
"""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.joins.mp2pf.chain import Chain
from millrace.joins.mp2pf.link import Message

SCHEMA = pa.schema([("time", pa.int64()), ("key", pa.int64()), ("count", pa.int64()), ("value", pa.float64())])


@dataclass
class Traffic:
    """Traffic over all links, sources' included.

    Attributes:
        messages: Serialisations, one per message.
        blocks: Messages with tuples.
        bytes: Their size.
        cpu_s: Seconds of one processor for writing and reading them.
    """

    messages: int = 0
    blocks: int = 0
    bytes: int = 0
    cpu_s: float = 0.0

    def count(self, message: Message) -> None:
        """Serialise a message, read it again and count it.

        Args:
            message: The delivered message.
        """
        begun = time.process_time()
        data = encode(message)
        decode(*data)
        self.cpu_s += time.process_time() - begun
        self.messages += 1
        self.blocks += bool(message.rows)
        self.bytes += sum(map(len, data))


def encode(message: Message) -> tuple[bytes, bytes]:
    """Return a message's numbers and its tuples as bytes.

    Args:
        message: A message whose tuples are a time and (key, count, value).
    """
    head = pickle.dumps(tuple(message._replace(rows=())), protocol=5)
    if not message.rows:
        return head, b""
    times, others = zip(*message.rows, strict=True)
    columns = [np.array(times, dtype=np.int64), *zip(*others, strict=True)]
    batch = pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    return head, batch.serialize().to_pybytes()


def decode(head: bytes, body: bytes) -> Message:
    """Return the message that ``encode`` serialised."""
    message = Message(*pickle.loads(head))  # noqa: S301 - written a line before
    if not body:
        return message
    times, *others = (column.to_pylist() for column in pa.ipc.read_record_batch(body, SCHEMA).columns)
    return message._replace(rows=tuple(zip(map(float, times), zip(*others, strict=True), strict=True)))


def settle(chain: Chain, traffic: Traffic | None = None) -> None:
    """Deliver everything in flight, in order, until nothing is left.

    Args:
        chain: A chain whose links lose nothing.
        traffic: Counts the deliveries, if given.
    """
    moved = True
    while moved:
        moved = False
        for link, queues in enumerate(chain.links):
            for direction, queue in enumerate(queues):
                while queue:
                    moved = True
                    if traffic:
                        traffic.count(queue[0])
                    chain.deliver(link, direction)

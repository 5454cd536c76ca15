"""Rows that arrive at a known rate, in files, a table or a socket, and their arrival times."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from millrace.lake.source_tables import SourceTable, is_table, query

SCHEMA = pa.schema([("id", pa.int64())])
CHUNK_S = 0.1
Write = Callable[[pa.Table, int], None]
"""Takes rows and the number of the chunk."""


@dataclass
class Arrivals:
    """The arrivals: times and the rows by then; the rate may change in between."""

    rows_per_s: float
    times: list[float] = field(default_factory=lambda: [time.time()])
    rows: list[int] = field(default_factory=lambda: [0])

    def rate(self, since: float, until: float) -> float:
        """Return the rows per second between two times."""
        begin, end = np.interp([since, until], self.times, self.rows)
        return float(end - begin) / (until - since)


@contextmanager
def arriving(write: Write, rows_per_s: float, every_s: float = CHUNK_S) -> Iterator[Arrivals]:
    """Let rows arrive until the block ends.

    Args:
        write: Where they arrive.
        rows_per_s: Their rate.
        every_s: Seconds between two chunks.
    """
    arrivals, due = Arrivals(rows_per_s), 0.0

    def arrive(_: int) -> None:
        nonlocal due
        due += (time.time() - arrivals.times[-1]) * arrivals.rows_per_s
        write(pa.table({"id": range(arrivals.rows[-1], int(due))}, SCHEMA), len(arrivals.rows))
        arrivals.times.append(time.time())
        arrivals.rows.append(int(due))

    with repeating(arrive, every_s):
        yield arrivals


@contextmanager
def repeating(action: Callable[[int], None], every_s: float) -> Iterator[None]:
    """Call an action in a thread with 0, 1 and so on until the block ends, first after one interval.

    Args:
        action: The action.
        every_s: Interval, seconds.
    """
    ended = threading.Event()

    def run() -> None:
        for number in count():
            if ended.wait(every_s):
                return
            action(number)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def files(folder: Path, kind: str) -> Write:
    """Return a function that writes each chunk as a file that appears at once."""
    folder.mkdir()

    def write(rows: pa.Table, number: int) -> None:
        hidden = folder / f".{number}"
        if kind == "json":
            # each row has the same number of bytes: growing numbers must not disturb estimates of rows by bytes
            hidden.write_text("".join(f'{{"id": {n:9}}}\n' for n in rows["id"].to_pylist()))
        elif kind == "csv":
            csv.write_csv(rows, hidden, csv.WriteOptions(include_header=False))
        else:
            parquet.write_table(rows, hidden)
        hidden.rename(folder / f"{number}.{kind}")

    return write


def table(folder: Path) -> Write:
    """Return a function that commits each chunk to a Delta table."""
    target = SourceTable(folder, SCHEMA, "test")
    return lambda rows, number: target.append(rows, 1, "arriving", number)


def ids(folder: Path) -> list[int]:
    """Return the ids in a Delta table, in order; empty before the table exists."""
    return query("select id from t order by id", t=folder)["id"].to_pylist() if is_table(folder) else []


@contextmanager
def lines() -> Iterator[tuple[int, Write]]:
    """Listen on a port, and write rows as lines to every client."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connected: list[socket.socket] = []

        def accept() -> None:
            connected.append(server.accept()[0])

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()

        def write(rows: pa.Table, _: int) -> None:
            thread.join()
            connected[0].sendall("".join(f"{n}\n" for n in rows["id"].to_pylist()).encode())

        try:
            yield server.getsockname()[1], write
        finally:
            for connection in connected:
                connection.close()

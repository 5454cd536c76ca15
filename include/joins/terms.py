"""What holds for one micro-batch of a join: settings, clocks and sizes, fixed before the batch begins.

All tasks of a batch read the same terms, and a batch that is repeated after a crash reads them again: so it keeps,
sheds and drops the very same tuples. They are written at the end of the batch before, next to the query's checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from include.model.codec import from_json, to_json
from include.model.errors import MillraceError
from include.model.join import JoinSettings

KEPT = 8
"""Batches whose terms stay: Spark repeats the last one at most, the others are for people."""


@dataclass(frozen=True)
class Move:
    """Tuples that one worker hands to another at the end of a batch."""

    source: int
    target: int
    tuples: int


@dataclass(frozen=True)
class Terms:
    """The terms of one micro-batch.

    Attributes:
        batch_id: Spark's batch id, >= 0.
        settings: Workers, block size and shed ratio.
        clocks: Newest event time seen before the batch, microseconds since 1970, of each stream that had a tuple.
        sizes: Tuples of the window at each worker, as if the moves were made.
        moves: Tuples to hand over at the end of the batch.
        handed: Pairs (target, source) of workers that handed something over at the end of the batch before.
    """

    batch_id: int
    settings: JoinSettings
    clocks: Mapping[str, int] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()
    moves: tuple[Move, ...] = ()
    handed: tuple[tuple[int, int], ...] = ()

    @property
    def reach(self) -> tuple[int, ...]:
        """Workers that every new tuple has to meet: those that keep new ones, and those that still keep old ones."""
        old = {i for i, size in enumerate(self.sizes) if size}
        return tuple(
            sorted({*range(self.settings.workers), *old, *(t for t, _ in self.handed), *(m.source for m in self.moves)})
        )


@dataclass(frozen=True)
class TermsFolder:
    """The terms of a query's batches, and what its workers hand over between two of them.

    Attributes:
        path: A folder that driver and executors see, beside the checkpoint.
    """

    path: Path

    def read(self, batch_id: int) -> Terms:
        """Return the terms of a batch.

        Raises:
            MillraceError: If they are not there.
        """
        try:
            return from_json(Terms, self._file(batch_id).read_text(encoding="utf-8"))
        except FileNotFoundError:
            remedy = "The folder belongs to the query's checkpoint: bring both back, or start with an empty checkpoint."
            raise MillraceError("terms of a batch", str(self._file(batch_id)), "a file", remedy) from None

    def write(self, terms: Terms) -> None:
        """Store the terms of the next batch; a repeated batch may write them again, as the next has not begun."""
        write_whole(self._file(terms.batch_id), to_json(terms).encode())
        for kind in ("terms", "handed"):
            for old in self.path.glob(f"{kind}-*"):
                if int(old.name.split("-")[1]) < terms.batch_id - KEPT:
                    old.unlink(missing_ok=True)

    def begin(self, settings: JoinSettings) -> None:
        """Store the terms of the very first batch, unless there are some."""
        if not self._file(0).exists() and not any(self.path.glob("terms-*")):
            self.write(Terms(0, settings))

    def hand(self, batch_id: int, target: int, source: int, tuples: bytes) -> None:
        """Keep what a worker gets from another at the begin of a batch."""
        write_whole(self._handed(batch_id, target, source), tuples)

    def handed(self, batch_id: int, target: int, source: int) -> bytes:
        """Return what a worker gets from another at the begin of a batch."""
        return self._handed(batch_id, target, source).read_bytes()

    def _file(self, batch_id: int) -> Path:
        return self.path / f"terms-{batch_id:09d}-.json"

    def _handed(self, batch_id: int, target: int, source: int) -> Path:
        return self.path / f"handed-{batch_id:09d}-{target}-{source}"


def write_whole(file: Path, content: bytes) -> None:
    """Write a file so that whoever reads it finds all of it, or what was there before."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    with fresh.open("wb") as output:
        output.write(content)
        output.flush()
        os.fsync(output.fileno())
    fresh.replace(file)

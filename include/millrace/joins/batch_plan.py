"""Plan of one join micro-batch: settings, clocks, which worker keeps which block, and which tuples move.

All tasks of a batch read the same plan. A batch that Spark repeats after a crash reads it again, so it keeps, sheds and
drops exactly the same tuples. Each plan is written at the end of the previous batch, next to the query's checkpoint.
The names and fields of its files (``terms-*``, ``handed-*``) are part of that checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from millrace.atomic_file import write_atomically
from millrace.joins.blocks import Block
from millrace.joins.forwarding_rule import resting_place
from millrace.model.codec import from_json, to_json
from millrace.model.errors import MillraceError
from millrace.model.join import JoinSettings

RETAINED = 8
"""Number of batch plans to keep. Spark repeats at most the last one; the others help with debugging."""


@dataclass(frozen=True)
class Move:
    """Tuples that one worker hands to another at the end of a batch."""

    source: int
    target: int
    tuples: int


@dataclass(frozen=True)
class BatchPlan:
    """The plan of one micro-batch.

    Attributes:
        batch_id: Spark's batch id, >= 0.
        settings: Workers, block size and shed ratio.
        clocks: Newest event time of each stream before the batch, microseconds since 1970; no entry without tuples.
        sizes: Window tuples per worker, as if the moves were already made; only if blocks are broadcast.
        moves: Tuples to hand over at the end of the batch; only if blocks are broadcast.
        handed: Pairs (target, source) of workers with a hand-over that the target has not acknowledged.
        chain: Workers of the chain that blocks are passed along; 0 if blocks are broadcast.
        rests: Window tuples per worker of the chain that entered on the left and on the right. Tuples on their way
            count at their target.
    """

    batch_id: int
    settings: JoinSettings
    clocks: Mapping[str, int] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()
    moves: tuple[Move, ...] = ()
    handed: tuple[tuple[int, int], ...] = ()
    chain: int = 0
    rests: tuple[tuple[int, int], ...] = ()

    @property
    def reach(self) -> tuple[int, ...]:
        """Return the workers that must take part in the batch: those that keep new tuples or still hold old ones."""
        if self.chain:
            return tuple(range(self.chain))
        old = {i for i, size in enumerate(self.sizes) if size}
        targets, sources = (t for t, _ in self.handed), (m.source for m in self.moves)
        return tuple(sorted({*range(self.settings.workers), *old, *targets, *sources}))

    @property
    def leaving(self) -> int | None:
        """The last worker of a chain that is longer than wanted: it leaves at the end of the batch."""
        return self.chain - 1 if self.chain > self.settings.workers else None

    def place(self, blocks: Sequence[Block]) -> list[int]:
        """Return the worker that keeps each block if blocks are broadcast, by the forwarding condition of MP-2PF.

        Each worker computes this on its own, from the same blocks in the same order. The first stream enters the chain
        on the left, the other streams on the right.

        Args:
            blocks: All blocks of the batch, in their order.
        """
        count = self.settings.workers
        sizes = [*self.sizes[:count], *[0] * (count - len(self.sizes))]
        homes = []
        for block in blocks:
            # a short block is placed like a full one: the condition knows only one block size
            home = resting_place(sizes, "right" if block.stream else "left", self.settings.block)
            sizes[home] += block.rows
            homes.append(home)
        return homes


def level(sizes: Sequence[int], workers: int, block: int) -> tuple[Move, ...]:
    """Return the moves that give each worker below ``workers`` the same number of tuples, and the other workers none.

    Returns no moves if all workers are level to within one block.

    Args:
        sizes: Tuples at each worker.
        workers: m.
        block: Tuples per block.
    """
    all_sizes = [*sizes, *[0] * (workers - len(sizes))]
    staying = all_sizes[:workers]
    if max(staying) - min(staying) <= block and not any(all_sizes[workers:]):
        return ()
    total = sum(all_sizes)
    goal = [total * (i + 1) // workers - total * i // workers for i in range(workers)]
    goal += [0] * (len(all_sizes) - workers)
    surplus = [[i, size - aim] for i, (size, aim) in enumerate(zip(all_sizes, goal, strict=True)) if size > aim]
    moves = []
    for target, (size, aim) in enumerate(zip(all_sizes, goal, strict=True)):
        lack = aim - size
        while lack > 0:
            source = surplus[-1]
            count = min(lack, source[1])
            moves.append(Move(source[0], target, count))
            lack, source[1] = lack - count, source[1] - count
            if not source[1]:
                surplus.pop()
    return tuple(moves)


def sizes_after(sizes: Sequence[int], moves: Sequence[Move]) -> tuple[int, ...]:
    """Return the tuples per worker after the moves."""
    after = [*sizes, *[0] * (max((m.target for m in moves), default=-1) + 1 - len(sizes))]
    for move in moves:
        after[move.source] -= move.tuples
        after[move.target] += move.tuples
    return tuple(after)


def sizes_before(sizes: Sequence[int], moves: Sequence[Move], workers: int) -> list[int]:
    """Return the tuples per worker before the moves, for at least ``workers`` workers.

    Args:
        sizes: Result of :func:`sizes_after`.
        moves: The same moves.
        workers: Minimum length of the result.
    """
    before = [*sizes, *[0] * (workers - len(sizes))]
    for move in moves:
        before[move.source] += move.tuples
        before[move.target] -= move.tuples
    return before


@dataclass(frozen=True)
class BatchPlans:
    """Store the plans of a query's batches, and the tuples that its workers hand over between batches.

    Attributes:
        folder: A folder next to the checkpoint that the driver and the executors can access.
    """

    folder: Path

    def read(self, batch_id: int) -> BatchPlan:
        """Return the plan of a batch.

        Raises:
            MillraceError: If the plan does not exist.
        """
        try:
            return from_json(BatchPlan, self._file(batch_id).read_text(encoding="utf-8"))
        except FileNotFoundError:
            remedy = "The folder belongs to the query's checkpoint: restore both, or start with an empty checkpoint."
            raise MillraceError("plan of a batch", str(self._file(batch_id)), "a file", remedy) from None

    def write(self, batch: BatchPlan) -> None:
        """Store the plan of the next batch. A repeated batch may overwrite it, because the next one has not started."""
        write_atomically(self._file(batch.batch_id), to_json(batch), mode=None, key="checkpoint")
        for kind in ("terms", "handed"):
            for old in self.folder.glob(f"{kind}-*"):
                if int(old.name.split("-")[1]) < batch.batch_id - RETAINED:
                    old.unlink(missing_ok=True)

    def begin(self, first: BatchPlan) -> None:
        """Store the plan of the very first batch, unless a plan exists."""
        if not self._file(0).exists() and not any(self.folder.glob("terms-*")):
            self.write(first)

    def hand(self, batch_id: int, target: int, source: int, tuples: bytes) -> None:
        """Store the tuples that a worker receives from another at the start of a batch.

        The file is also the copy that the source keeps until the target's report acknowledges the tuples.
        """
        write_atomically(self._handed(batch_id, target, source), tuples, mode=None, key="checkpoint")

    def hand_again(self, batch_id: int, target: int, source: int) -> None:
        """Keep tuples that were not received in a batch for the next one."""
        self.hand(batch_id + 1, target, source, self.handed(batch_id, target, source))

    def handed(self, batch_id: int, target: int, source: int) -> bytes:
        """Return the tuples that a worker receives from another at the start of a batch."""
        return self._handed(batch_id, target, source).read_bytes()

    def _file(self, batch_id: int) -> Path:
        return self.folder / f"terms-{batch_id:09d}-.json"

    def _handed(self, batch_id: int, target: int, source: int) -> Path:
        return self.folder / f"handed-{batch_id:09d}-{target}-{source}"

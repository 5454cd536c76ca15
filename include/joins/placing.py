"""Which worker keeps a new block, and what workers hand over so that none keeps more than a block above another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from include.joins.blocks import Block
from include.joins.mp2pf.forwarding import resting_place
from include.joins.terms import Move, Terms


def place(blocks: Sequence[Block], terms: Terms) -> list[int]:
    """Return the worker that keeps each block, by the forwarding condition of MP-2PF.

    All workers of a batch work this out for themselves, from the same blocks in the same order. The first stream
    enters the chain on the left, the others on the right.

    Args:
        blocks: All blocks of a batch, in their order.
        terms: Its terms.
    """
    count = terms.settings.workers
    sizes = [*terms.sizes[:count], *[0] * (count - len(terms.sizes))]
    homes = []
    for block in blocks:
        enters: Literal["left", "right"] = "right" if block.stream else "left"
        # a short block travels as a full one would: the condition knows one block size
        home = resting_place(sizes, enters, terms.settings.block)
        sizes[home] += block.rows
        homes.append(home)
    return homes


def moves(sizes: Sequence[int], workers: int, block: int) -> tuple[Move, ...]:
    """Return what workers hand over so that those below ``workers`` keep the same, and the others nothing.

    Nothing is handed over while all is level to within a block.

    Args:
        sizes: Tuples at each worker.
        workers: m.
        block: Tuples of a block.
    """
    all_sizes = [*sizes, *[0] * (workers - len(sizes))]
    staying = all_sizes[:workers]
    if max(staying) - min(staying) <= block and not any(all_sizes[workers:]):
        return ()
    total = sum(all_sizes)
    goal = [total * (i + 1) // workers - total * i // workers for i in range(workers)]
    goal += [0] * (len(all_sizes) - workers)
    surplus = [[i, size - aim] for i, (size, aim) in enumerate(zip(all_sizes, goal, strict=True)) if size > aim]
    found = []
    for target, (size, aim) in enumerate(zip(all_sizes, goal, strict=True)):
        lack = aim - size
        while lack > 0:
            source = surplus[-1]
            count = min(lack, source[1])
            found.append(Move(source[0], target, count))
            lack, source[1] = lack - count, source[1] - count
            if not source[1]:
                surplus.pop()
    return tuple(found)


def moved(sizes: Sequence[int], made: Sequence[Move]) -> tuple[int, ...]:
    """Return the sizes as they are once moves are made."""
    found = [*sizes, *[0] * (max((m.target for m in made), default=-1) + 1 - len(sizes))]
    for move in made:
        found[move.source] -= move.tuples
        found[move.target] += move.tuples
    return tuple(found)

"""Two streams of equal rate through a chain, and what it costs once windows are full."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.esj.wire import Traffic, settle
from millrace.joins.mp2pf.chain import Chain
from millrace.joins.mp2pf.link import Row
from millrace.joins.mp2pf.rules import Rules
from millrace.joins.mp2pf.worker import Met

Streams = tuple[Sequence[Row], Sequence[Row]]
KEYS = 50


@dataclass(frozen=True)
class Fed:
    """What a chain did.

    Attributes:
        traffic: Traffic after the first windows were full.
        tuples: Tuples of both streams that arrived in that time.
        met: All pairs that met.
        difference: Highest workload difference of two neighbours in a stream, at quiescence.
    """

    traffic: Traffic
    tuples: int
    met: Met
    difference: int


def streams(tuples: int, seed: int) -> Streams:
    """Return two streams of one tuple per time unit each.

    Args:
        tuples: Tuples per stream.
        seed: Seed of keys, counts and values.
    """
    rng = random.Random(seed)  # noqa: S311 - draws, no secrets

    def row(at: int) -> Row:
        return float(at), (rng.randrange(KEYS), rng.randrange(300), rng.random())

    return [row(at) for at in range(tuples)], [row(at) for at in range(tuples)]


def feed(both: Streams, rules: Rules, workers: int, block: int) -> Fed:
    """Feed a chain block by block, alternating the streams, until both end.

    Args:
        both: Streams of equal length.
        rules: Rules of the chain.
        workers: m.
        block: Tuples per block.
    """
    chain, warm = Chain(rules, workers, block), Traffic()
    traffic, counted, difference = warm, 0, 0
    # a tuple leaves once the other stream's tuples of its window have arrived and later blocks have passed it on
    full = rules.window_r + rules.window_s + 2 * block
    length = len(both[0])
    for at in range(0, length, block):
        until = min(at + block, length)
        if at >= full and traffic is warm:
            traffic = Traffic()
        if traffic is not warm:
            counted += 2 * (until - at)
        for stream in (0, 1):
            chain.feed(stream, both[stream][at:until], both[stream][until - 1][0])
            settle(chain, traffic)
            difference = max(difference, _difference(chain))
    for stream in (0, 1):
        chain.flush(stream)
    settle(chain)
    return Fed(traffic, counted, chain.met, difference)


def _difference(chain: Chain) -> int:
    sizes = [chain.sizes(stream) for stream in (0, 1)]
    return max((abs(a - b) for of in sizes for a, b in pairwise(of)), default=0)

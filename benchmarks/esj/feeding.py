"""Two streams of one rate through a chain: what it costs once windows are full."""

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
        traffic: After the first windows were full.
        tuples: Of both streams that came meanwhile.
        met: All pairs that met.
        difference: Highest workload difference of two neighbours in a stream, at quiescence.
    """

    traffic: Traffic
    tuples: int
    met: Met
    difference: int


def streams(tuples: int, seed: int) -> Streams:
    """Return two streams of one tuple a time unit each.

    Args:
        tuples: Of each stream.
        seed: Of keys, counts and values.
    """
    rng = random.Random(seed)  # noqa: S311 - draws, no secrets

    def row(at: int) -> Row:
        return float(at), (rng.randrange(KEYS), rng.randrange(300), rng.random())

    return [row(at) for at in range(tuples)], [row(at) for at in range(tuples)]


def feed(both: Streams, rules: Rules, workers: int, block: int) -> Fed:
    """Feed a chain block by block, each stream in turn, until both end.

    Args:
        both: Streams of one length.
        rules: Of the chain.
        workers: m.
        block: Tuples of a block.
    """
    chain, warm = Chain(rules, workers, block), Traffic()
    traffic, counted, difference = warm, 0, 0
    # a tuple leaves when the other stream's tuples of its window have come, and blocks behind it have passed it on
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

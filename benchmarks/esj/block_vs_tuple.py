"""Blocks against tuples one at a time: messages, bytes and serialising per tuple, and the unevenness that blocks cost.

The communication paper's own claim ([ESJ-C] "Reducing Serialization"), measured in its own units. The rival is
two-phase forwarding before blocks: the same chain with a block of one tuple.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.esj.feeding import Fed, feed, streams
from benchmarks.record import Record
from millrace.joins.mp2pf.rules import Rules

BENCH = "esj"
BLOCKS, QUICK_BLOCKS = (4, 16, 64, 256), (4, 16, 64)
MAIN = 64
"""The block size of the main comparison with the rival; scenarios of other sizes are named after theirs."""
WORKERS = 4
WINDOW, QUICK_WINDOW = 1000, 160
"""Largest event-time distance of partners; one tuple of each stream arrives per time unit."""
WINDOWS_FED = 7


def records(quick: bool) -> Iterator[Record]:
    """Run every block size.

    Args:
        quick: A smaller window, fewer sizes.
    """
    window = QUICK_WINDOW if quick else WINDOW
    both = streams(WINDOWS_FED * window, seed=0)
    rules = Rules(window, window)
    yield from costs("block_vs_tuple", "tuple_at_a_time", feed(both, rules, WORKERS, 1))
    for block in QUICK_BLOCKS if quick else BLOCKS:
        scenario = "block_vs_tuple" if block == MAIN else f"block_vs_tuple_{block}"
        yield from costs(scenario, "ours", feed(both, rules, WORKERS, block), block)


def costs(scenario: str, method: str, fed: Fed, block: int = 1) -> Iterator[Record]:
    """Yield the costs per tuple.

    Args:
        scenario: Its name.
        method: Its name.
        fed: Result of feeding the chain.
        block: Tuples per block.
    """
    traffic, n = fed.traffic, fed.tuples
    figures = {
        "messages_per_tuple": (traffic.messages / n, "messages"),
        "blocks_per_tuple": (traffic.blocks / n, "messages"),
        "bytes_per_tuple": (traffic.bytes / n, "bytes"),
        "serialising_us_per_tuple": (traffic.cpu_s / n * 1e6, "us"),
        "workload_difference": (fed.difference, "tuples"),
        "workload_difference_over_block": (max(0, fed.difference - block), "tuples"),
    }
    for figure, (value, unit) in figures.items():
        yield Record(BENCH, scenario, method, figure, value, unit, n=n)

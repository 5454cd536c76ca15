"""How well a stream join adapts and passes messages: ``./millrace bench esj``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.esj import block_size, block_vs_tuple, interleavings, policy, protocol_targets, sharing, spark_join
from benchmarks.esj.targets import TARGETS
from benchmarks.record import Record
from benchmarks.targets import judged
from benchmarks.threads import one_thread
from include.local.stack.progress import step

PARTS: dict[str, Callable[[bool], Iterator[Record]]] = {
    "block size": block_size.records,
    "policy": policy.records,
    "interleavings": interleavings.records,
    "sharing": sharing.records,
    "blocks against tuples": block_vs_tuple.records,
    "Spark's own join": spark_join.records,
}


def run(quick: bool) -> list[Record]:
    """Measure everything.

    Args:
        quick: Fewer cases and seeds.
    """
    found: list[Record] = []
    for name, part in PARTS.items():
        with step(name), one_thread():
            found += part(quick)
    return judged(found, (*TARGETS, *protocol_targets.TARGETS))

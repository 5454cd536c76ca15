"""How well a stream join adapts and passes messages: ``./millrace bench esj``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.esj import block_size, policy
from benchmarks.esj.targets import TARGETS
from benchmarks.record import Record
from benchmarks.targets import judged
from benchmarks.threads import one_thread
from include.stack.progress import step

PARTS: dict[str, Callable[[bool], Iterator[Record]]] = {
    "block size": block_size.records,
    "policy": policy.records,
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
    return judged(found, TARGETS)

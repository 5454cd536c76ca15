"""A benchmark's targets, and whether they were met."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchmarks.record import Record, at_most


@dataclass(frozen=True)
class Target:
    """A limit on a figure; it holds if the value, or the upper end of its interval, is at most the limit."""

    scenario: str
    method: str
    figure: str
    limit: float


def judged(records: Sequence[Record], targets: Iterable[Target]) -> list[Record]:
    """Return the records with their targets, and whether each holds; existing targets are kept.

    A mean is judged at the upper end of its 95 % interval, a median at the 97.5th percentile of the measurements, which
    for a few seeds is almost the worst.

    Args:
        records: The benchmark's results.
        targets: Its limits.
    """
    limits = {(t.scenario, t.method, t.figure): t.limit for t in targets}
    found = []
    for record in records:
        limit = limits.get((record.scenario, record.method, record.figure))
        if limit is not None and record.target is None:
            target, holds = at_most(record.value if record.high is None else record.high, limit)
            record = replace(record, target=target, holds=holds)
        found.append(record)
    return found

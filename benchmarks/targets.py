"""What a benchmark aims at, and whether it was reached."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchmarks.record import Record, at_most


@dataclass(frozen=True)
class Target:
    """A limit on a figure; it holds if the value, or the upper end of its interval, is at most that."""

    scenario: str
    method: str
    figure: str
    limit: float


def judged(records: Sequence[Record], targets: Iterable[Target]) -> list[Record]:
    """Return the records with their targets, and whether each holds; one that has a target keeps it.

    A mean is judged at the upper end of its 95 % interval, a median at the 97.5th percentile of what was measured,
    which of a few seeds is nearly the worst.

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

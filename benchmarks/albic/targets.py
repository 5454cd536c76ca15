"""What is aimed at, and whether it was reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.albic.drain import LEAST_PERIODS
from benchmarks.record import Record, at_most


@dataclass(frozen=True)
class Target:
    """A limit on a figure."""

    scenario: str
    method: str
    figure: str
    limit: float


TARGETS = (
    Target("grid", "balancer", "worse_than_flux", 0),
    Target("grid", "balancer", "bound_gap", 0.05),
    Target("grid", "balancer", "bound_gap_p95", 0.25),
    Target("grid", "balancer", "bound_gap_max", 0.4),
    Target("grid", "balancer", "seconds_p95", 2.0),
    Target("large", "balancer", "bound_gap", 0.15),
    Target("large", "balancer", "seconds", 2.0),
    Target("large", "balancer", "worse_than_flux", 0),
    Target("drain", "balancer", "drain_periods", LEAST_PERIODS + 1),
)

RIVALS = (("drain_1ol", "load_distance"), ("drain_5ol", "load_distance"))
"""Where the balancer is to be no worse than the non-integrated way."""


def judged(records: Sequence[Record]) -> list[Record]:
    """Return the records with their targets, and whether each holds; one that has a target keeps it."""
    limits = {(t.scenario, t.method, t.figure): t.limit for t in TARGETS}
    for scenario, figure in RIVALS:
        rival = [r.value for r in records if (r.scenario, r.method, r.figure) == (scenario, "non_integrated", figure)]
        if rival:
            limits[scenario, "balancer", figure] = rival[0]
    found = []
    for record in records:
        limit = limits.get((record.scenario, record.method, record.figure))
        if limit is not None and record.target is None:
            target, holds = at_most(record.value, limit)
            record = replace(record, target=target, holds=holds)
        found.append(record)
    return found

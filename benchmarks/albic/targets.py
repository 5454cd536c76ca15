"""Targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.albic.drain import LEAST_PERIODS
from benchmarks.record import Record
from benchmarks.targets import Target

TARGETS = (
    Target("grid", "balancer", "worse_than_flux", 0),
    Target("grid", "balancer", "bound_gap_median", 0.05),
    Target("grid", "balancer", "bound_gap_p95", 0.25),
    Target("grid", "balancer", "bound_gap_max", 0.4),
    Target("grid", "balancer", "seconds_p95", 2.0),
    Target("large", "balancer", "bound_gap", 0.15),
    Target("large", "balancer", "seconds", 2.0),
    Target("large", "balancer", "worse_than_flux", 0),
    Target("drain", "balancer", "drain_periods", LEAST_PERIODS + 1),
)

RIVALS = (("drain_1ol", "load_distance"), ("drain_5ol", "load_distance"))
"""Scenarios on which the balancer must be no worse than the non-integrated way."""


def of_rivals(records: Sequence[Record]) -> Iterator[Target]:
    """Yield the limits that a rival set in the same run.

    Args:
        records: The benchmark's results.
    """
    for record in records:
        if record.method == "non_integrated" and (record.scenario, record.figure) in RIVALS:
            yield Target(record.scenario, "balancer", record.figure, record.value)

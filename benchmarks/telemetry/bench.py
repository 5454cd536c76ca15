"""What Millrace adds to a job: telemetry to a stateful backlog, and everything together to a nearly empty batch."""

from __future__ import annotations

import signal
from collections.abc import Collection, Mapping

from benchmarks.record import Record
from benchmarks.telemetry import backlog, fixed_cost

SCENARIOS: Mapping[str, str] = {"backlog": backlog.SCENARIO, "fixed_cost": fixed_cost.SCENARIO}
MEASURE = {"backlog": backlog.measure, "fixed_cost": fixed_cost.measure}


def run(quick: bool, scenarios: Collection[str] = tuple(SCENARIOS)) -> list[Record]:
    """Measure with and without Millrace, in turns.

    Args:
        quick: Fewer and shorter turns.
        scenarios: Which of :data:`SCENARIOS`.

    Raises:
        RuntimeError: If a driver does not start, or ends with an error.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a clean shutdown, as with Ctrl-C
    return [record for name, measure in MEASURE.items() if name in scenarios for record in measure(quick)]

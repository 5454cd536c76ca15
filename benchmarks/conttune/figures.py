"""Names, units and formats of the figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """How a figure is shown.

    Attributes:
        unit: Its unit in the records.
        short: Its name in a table for people; empty if it is not shown there.
        scale: Factor for the table.
        digits: Decimals in the table.
    """

    unit: str
    short: str = ""
    scale: float = 1.0
    digits: int = 2


FIGURES: Mapping[str, Figure] = {
    "reconfigurations_per_tuning": Figure("1/tuning", "reconf.\na tuning"),
    "bad_per_tuning": Figure("1/tuning", "bad\na tuning", digits=3),
    "throttled_ratio": Figure("ratio", "throttled\n%", 100),
    "core_seconds_vs_oracle": Figure("ratio", "core-s\n/ oracle", digits=3),
    "peak_vs_oracle": Figure("ratio", "peak\n/ oracle"),
    "non_converged": Figure("ratio", "not\nconv. %", 100, 1),
    "backlogged_ratio": Figure("ratio"),
    "backlog_s": Figure("s", "backlog\ns", digits=1),
    "tuning_s": Figure("s", "tuning\ns", digits=0),
    "latency_p99_s": Figure("s", "p99\ns", digits=0),
    "reconfigurations_up": Figure("1/tuning"),
    "reconfigurations_down": Figure("1/tuning"),
    "decision_ms": Figure("ms/operator", "decision\nms"),
    "decision_ms_p95": Figure("ms/operator"),
    "reconfigurations_to_recover": Figure("1"),
    "ineffective_steps": Figure("1"),
}
"""Figures of a run in reporting order; the last two exist only for some scenarios."""

WITH_INTERVAL = ("reconfigurations_per_tuning", "bad_per_tuning", "core_seconds_vs_oracle")
"""Figures that the table shows with their interval."""

BENCH = "conttune"

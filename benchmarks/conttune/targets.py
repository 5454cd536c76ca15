"""Targets."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.conttune.cases import FRONTIER_SCENARIOS
from benchmarks.targets import Target

RECONFIGURATIONS, BAD = "reconfigurations_per_tuning", "bad_per_tuning"
CORES, PEAK = "core_seconds_vs_oracle", "peak_vs_oracle"
DECISION_MS = 50.0
LOO_ERROR = 0.025
UNSEEN_LIMITS = {"noise3_untold": (1.10, 0.04), "wiggle4": (1.12, 0.05), "wiggle8": (1.12, 0.05)}
FAMILY_LIMITS = 1.20, 0.08
"""Most reconfigurations and bad choices per tuning."""


def _both_executions() -> Iterator[Target]:
    for suffix in ("", "_mb"):
        yield Target("paper" + suffix, "flow", RECONFIGURATIONS, 1.05)
        yield Target("paper_warm" + suffix, "flow", RECONFIGURATIONS, 1.00)
        for scenario in ("paper", "paper_warm"):
            yield Target(scenario + suffix, "flow", BAD, 0.02)
            yield Target(scenario + suffix, "flow", CORES, 1.04)
            yield Target(scenario + suffix, "flow", PEAK, 1.5)
        yield Target("paper_shifted" + suffix, "flow", RECONFIGURATIONS, 1.05)
        yield Target("paper_shifted" + suffix, "flow", BAD, 0.02)
        yield Target("paper_shifted" + suffix, "flow", CORES, 1.04)
        yield Target("dag12" + suffix, "flow", RECONFIGURATIONS, 1.15)
        yield Target("noise3" + suffix, "flow", RECONFIGURATIONS, 1.10)
        yield Target("drift" + suffix, "flow", "reconfigurations_to_recover", 2.0)
        yield Target("etl" + suffix, "flow", RECONFIGURATIONS, 0.25)
        yield Target("etl" + suffix, "flow", BAD, 0.001)
        yield Target("etl" + suffix, "flow", CORES, 1.18)
        yield Target("plateau" + suffix, "flow", "ineffective_steps_worst", 2.0)
        yield Target("diurnal" + suffix, "flow_proactive", "throttled_ratio_vs_reactive_oracle", 0.3)
        yield Target("diurnal" + suffix, "flow_proactive", CORES, 1.08)
        yield Target("paper" + suffix, "flow", "decision_ms_p95", DECISION_MS)
    yield Target("dag12", "flow", "decision_ms_p95", DECISION_MS)
    yield Target("loo", "flow", "loo_error", LOO_ERROR)
    yield Target("ds2_parity", "ds2", "mismatches", 0)
    for scenario in FRONTIER_SCENARIOS:
        yield Target(scenario, "flow", "frontier_dominated", 0)


def _unseen() -> Iterator[Target]:
    for scenario in ("noise3_untold", "wiggle4", "wiggle8", "outliers", "amdahl", "usl", "executors", "executors_told"):
        reconfigurations, bad = UNSEEN_LIMITS.get(scenario, FAMILY_LIMITS)
        yield Target(scenario, "flow", RECONFIGURATIONS, reconfigurations)
        yield Target(scenario, "flow", BAD, bad)
    for scenario in ("wiggle4", "wiggle8"):
        yield Target(scenario, "flow", CORES, 1.08)
    for scenario in ("positive", "heavy", "random_walk", "video"):
        yield Target(scenario, "flow", BAD, 0.03)


TARGETS = (*_both_executions(), *_unseen())

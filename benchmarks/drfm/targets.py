"""Targets."""

from __future__ import annotations

from benchmarks.drfm.adaptivity import LATENCY_S
from benchmarks.drfm.metadata_levels import PARTIAL, SPANS
from benchmarks.drfm.scale import COMPARED
from benchmarks.simulation.admission_workloads import WORKLOADS
from benchmarks.targets import Target

CPSAT = ("cpsat", "cpsat_fewest_nodes")
PAIRS, VARYING = ("psfcw", "ptfcw"), ("sfvar", "tfvar")

TARGETS = (
    *(Target(s, "horizon", "above_optimum_ratio", 0.05) for s in PAIRS),
    *(Target(s, "horizon", "redirections_per_period", 0.0) for s in (*PAIRS, "constw")),
    *(Target(s, "horizon", "above_optimum_ratio", 0.07) for s in VARYING),
    *(Target(s, "horizon", "redirections_per_period", 2.0) for s in VARYING),
    *(Target(s, "horizon", "overloaded_ratio", 0.0) for s in (*PAIRS, *VARYING, "constw")),
    *(Target("no_metadata", f"horizon_{s}", "above_told_ratio", 0.03) for s in (*PAIRS, *VARYING)),
    *(
        Target(f"metadata_{workload}{ending}", level, "above_nothing_worst", 0.01)
        for workload in WORKLOADS
        for ending in SPANS
        for level in (*PARTIAL, "all", "wrong_30")
    ),
    Target("bursty_frontier", "horizon", "undominated_ratio", 0.0),
    Target("adaptivity", "horizon", "latency_p95_s", LATENCY_S),
    *(Target("scale_1m", method, "seconds", 0.5) for method in COMPARED),
    *(Target(f"sfvar_level_{n}", m, "unproven_ratio", 0.05) for n in (4, 8, 16, 32) for m in CPSAT),
    *(Target(f"sfvar_level_{n}", "cpsat", "seconds", 1.0) for n in (4, 8, 16, 32)),
)

"""Why targets are missed, as far as known, in a sentence each, and which missed targets matter most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Missed = tuple[str, str, str]
"""A benchmark, its scenario, the figure."""


@dataclass(frozen=True)
class Loss:
    """A missed target that a buyer should know about.

    Attributes:
        text: The figure in words.
        missed: The benchmark, its scenario, the figure.
        method: Whose figure.
    """

    text: str
    missed: Missed
    method: str


BAD, STEPS, CORES = "bad_per_tuning", "reconfigurations_per_tuning", "core_seconds_vs_oracle"
THROTTLED, REDIRECTIONS, UNPROVEN = "throttled_ratio_vs_reactive_oracle", "redirections_per_period", "unproven_ratio"
ABOVE_NOTHING = "above_nothing_worst"

SHARED = "Executors, feed and evaluations share two cores."
MEAN_HOLDS = "The mean holds; its interval exceeds the target."
NEVER_RAN = "Nearly all bad choices are at levels that never ran."
WIGGLES = "Most bad choices are at levels that never ran, before seven levels are known."
WHOLE_EXECUTORS = "Slots come in whole executors only, and Millrace does not know their size."
OUTLIERS = "The first observation of a level is believed, even if it is an outlier."
ROOM = "Levels that are not known yet get extra room."
FIRST_TUNINGS = "The first tunings start at one slot with nothing known."
FROM_ABOVE = "Two fifths of the changes are first ones, from too many slots at the start."
FROM_BELOW = "Two fifths of the changes are the first ones, from one slot at the start."
FEW_CHANGES = "Flow scales each run down once or twice; Flink often keeps its slots."
MEDIANS_HOLD = "The worst of five seeds is judged; the medians hold."
ONE_REDIRECTION = "One stream moves once in one of five seeds."
FULLER = "DRF-M with 80 or 90 % fill takes fewer nodes and moves four times more."
NO_PROOF = "The fewest nodes are often not proven; plans weigh nodes against redirections."
NO_PHASE = "Without a phase, streams get room until their cycles are learned."
BURSTS = "Bursts do not repeat, so nothing corrects declared durations that are too short."
ONE_ROUND = "One round of three added two slots after its moves; tests ran during two."
ONE_HOST = "Rounds of one method differ by a fifth, and the worst ratio is judged."
RISES = "A rise takes 40 s; starting three executors on two cores takes half of it."

OF_BENCH: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "placement": {
        "skew": {
            "batch_time_vs_wait_3s": "A sixth of a batch is outside stages with state; Spark also moves partitions."
        },
        "drift": {"batch_time_vs_even": "Stages with state take at least 5 of 8.2 s with any placement."},
        "skew_large_state": {
            "batch_time_vs_wait_0": "The mean is 0.83; loading state again costs Spark at most 1.3 s per batch."
        },
        "one_to_one_one_host": dict.fromkeys(
            ("cpu_vs_even", "batch_time_vs_even", "cpu_vs_wait_0", "batch_time_vs_wait_0"), ONE_HOST
        ),
    },
    "integrate": {
        "skew": dict.fromkeys(("slots_added", "behind_more_than_non_integrated_s"), ONE_ROUND),
    },
    "control_scale": {
        "p50_d7": {"evaluation_cpu_s": "Three appends take 0.15 s, in tables with an hour of small files."}
    },
    "many": {
        "p50": {"cores, Airflow included": "Evaluations take 0.33 cores, the scheduler and its task processes 0.26."}
    },
    "capacity": {
        "p = 4": {"predicted / measured": "The fit's throughput per slot is a fifth below that at other sizes."}
    },
    "elastic": {
        "day": {"commit_to_decision_p95_s": SHARED, "behind_ratio": "The longest batch took 21 s, a row waited 39 s."},
        "sawtooth": {
            "commit_to_decision_p95_s": SHARED,
            **dict.fromkeys(("better_rivals", "behind_ratio", "core_seconds_vs_fixed"), RISES),
        },
    },
    "graph": {
        "step_x4": {
            "reconfigurations_of_step": "One decision sizes all apps; one of them gives back four slots after 67 s.",
            "better_rivals": "Untried sizes get spare slots; DS2's four were enough.",
        }
    },
    "soak": {"day": {"rss_ratio": "deltalake keeps about 80 KB per append through a newly opened table."}},
    "conttune": {
        "noise3": {STEPS: MEAN_HOLDS},
        "noise3_mb": {STEPS: "The mean misses by 0.004 with seed 0 and holds with the others."},
        "noise3_untold": {
            STEPS: MEAN_HOLDS,
            BAD: "Until levels repeat, flow assumes a third of the noise.",
        },
        "outliers": {STEPS: OUTLIERS, BAD: OUTLIERS},
        "wiggle4": {BAD: WIGGLES},
        "wiggle8": {BAD: WIGGLES, STEPS: WIGGLES, CORES: "Half of it is room for levels that may be 8 % off."},
        "executors": {STEPS: WHOLE_EXECUTORS, BAD: WHOLE_EXECUTORS},
        "positive": {BAD: "All figures are 1.6 % too high; only a level that falls short shows it."},
        "heavy": {BAD: NEVER_RAN},
        "random_walk": {BAD: "The means hold; half of the bad choices are in the first tuning."},
        "video": {BAD: NEVER_RAN},
        "paper": {
            STEPS: "Most tunings with several changes are the first, which start at one slot.",
            BAD: "Some steps up are at first too small by a slot or two.",
            CORES: ROOM,
        },
        "paper_mb": {STEPS: MEAN_HOLDS},
        "paper_warm": {STEPS: "720 tunings take 720 to 727 changes; the target allows 720.", BAD: MEAN_HOLDS},
        "paper_warm_mb": {STEPS: "The target allows no extra change; the oracle's own interval exceeds it."},
        "paper_shifted": {STEPS: FIRST_TUNINGS, BAD: FIRST_TUNINGS, CORES: ROOM},
        "paper_shifted_mb": {
            STEPS: "The target allows 252 changes in 240 tunings; flow makes 250 to 256.",
            CORES: "The mean holds with three of four seeds.",
        },
        "drift_mb": {"reconfigurations_to_recover": MEAN_HOLDS},
        "diurnal": {
            THROTTLED: "The mean is 0.30 to 0.42, depending on the seed.",
            CORES: "Room for forecast load costs more than following the load.",
        },
        "diurnal_mb": {THROTTLED: "The mean holds with seed 0 only.", CORES: MEAN_HOLDS},
        "etl": dict.fromkeys(
            (
                *(STEPS, BAD, CORES),
                *("reconfigurations_at_flink_0.7_0.3", "reconfigurations_at_1.18_cores", "bad_at_1.18_cores"),
            ),
            FROM_ABOVE,
        ),
        "etl_mb": {STEPS: FROM_BELOW},
        "monitoring": dict.fromkeys(
            ("reconfigurations_at_flink_0.9_0.2", "bad_at_flink_0.9_0.2", "reconfigurations_at_flink_0.7_0.3"),
            FEW_CHANGES,
        ),
        "loo": {"loo_error": "The mean holds; thirteen levels are too few for a narrow interval."},
    },
    "albic": {
        "grid": {"bound_gap_max": "With 20 nodes and ten moves, the optimum itself is above the bound."},
        "job2": {
            "load_distance_settled": "One of five seeds misses, in one period.",
            "load_distance_throughout": "One period of one run misses.",
            "periods_to_full_worst": "One of five runs has its last pair together a period later.",
        },
        "job4": {"load_distance_end": "Only 20 groups move per period, and each day's flights change what is hot."},
    },
    "drfm": {
        "sfvar": {"above_optimum_ratio": MEDIANS_HOLD},
        "no_metadata": {"above_told_ratio": MEDIANS_HOLD},
        "psfcw": {REDIRECTIONS: ONE_REDIRECTION},
        "ptfcw": {REDIRECTIONS: ONE_REDIRECTION},
        "bursty_frontier": dict.fromkeys(
            ("undominated_ratio", "above_optimum_at_drfm_full_0.8", "above_optimum_at_drfm_full_0.9"), FULLER
        ),
        "sfvar_level_8": {UNPROVEN: NO_PROOF},
        "sfvar_level_16": {UNPROVEN: NO_PROOF},
        "sfvar_level_32": {UNPROVEN: NO_PROOF},
        "scale_1m": {"seconds": "Each node that overflows or empties is a search of its own in Python."},
        "metadata_ptfcw": {ABOVE_NOTHING: NO_PHASE},
        "metadata_tfvar": {ABOVE_NOTHING: NO_PHASE},
        "metadata_tfvar_late": {
            ABOVE_NOTHING: "The worst of five seeds is judged; medians differ by 0.6 points at most."
        },
        "metadata_sfvar_late": {ABOVE_NOTHING: "The worst of five seeds is judged; means differ by one point at most."},
        "metadata_bursty": {ABOVE_NOTHING: BURSTS},
        "metadata_bursty_late": {ABOVE_NOTHING: BURSTS},
        "panes_streaming": {"speedup": "Moving rows to Python and back takes 0.7 of 1.8 s per batch."},
    },
}
"""Reasons by benchmark, scenario and figure."""

REASONS: Mapping[Missed, str] = {
    (bench, scenario, figure): why
    for bench, scenarios in OF_BENCH.items()
    for scenario, figures in scenarios.items()
    for figure, why in figures.items()
}

LOSSES = (
    Loss(
        "Rivals better in both if the load rises every 40 s: a fixed size of six slots",
        ("elastic", "sawtooth", "better_rivals"),
        "live",
    ),
    Loss(
        "Core-seconds on this stream, relative to six fixed slots",
        ("elastic", "sawtooth", "core_seconds_vs_fixed"),
        "live",
    ),
    Loss(
        "Share of a day of load in which a row has waited for more than 30 s",
        ("elastic", "day", "behind_ratio"),
        "live",
    ),
    Loss(
        "Batch time with three hot state partitions, relative to Spark's defaults",
        ("placement", "skew", "batch_time_vs_wait_3s"),
        "albic",
    ),
    Loss(
        "Rivals that keep the lag goal of a chain of apps for fewer core-seconds",
        ("graph", "step_x4", "better_rivals"),
        "flow",
    ),
    Loss(
        "Batch time on one host, relative to even placement",
        ("placement", "one_to_one_one_host", "batch_time_vs_even"),
        "albic",
    ),
    Loss(
        "Batch time when hot keys change, relative to even placement",
        ("placement", "drift", "batch_time_vs_even"),
        "albic",
    ),
    Loss(
        "CPU cores that Airflow and Millrace take for 50 pipelines",
        ("many", "p50", "cores, Airflow included"),
        "millrace",
    ),
    Loss("Memory after a day, relative to an hour", ("soak", "day", "rss_ratio"), "evaluations"),
    Loss(
        "Reconfigurations per rate of an ETL job; the target is Flink's autoscaler",
        ("conttune", "etl", "reconfigurations_at_flink_0.7_0.3"),
        "flow",
    ),
    Loss(
        "Share of choices that are too small if the size of executors is unknown",
        ("conttune", "executors", BAD),
        "flow",
    ),
    Loss(
        "Share of DRF-M's settings that Millrace cannot match on bursts",
        ("drfm", "bursty_frontier", "undominated_ratio"),
        "horizon",
    ),
    Loss(
        "Extra nodes on bursts if metadata are 30 % wrong, as a share of the optimum",
        ("drfm", "metadata_bursty_late", ABOVE_NOTHING),
        "wrong_30",
    ),
    Loss("Time to plan a period for a million streams", ("drfm", "scale_1m", "seconds"), "horizon"),
    Loss(
        "Share of choices that are too small if one period in ten is an outlier", ("conttune", "outliers", BAD), "flow"
    ),
    Loss("Speed of sliding windows, relative to Spark's", ("drfm", "panes_streaming", "speedup"), "panes"),
)
"""Most important first."""

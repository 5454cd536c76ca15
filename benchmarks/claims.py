"""What docs/benchmarks.md claims: each claim names the records that prove it, and the command that measures them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Claim:
    """A figure that a buyer asks about. All its records are of one scenario.

    Attributes:
        text: The figure in words; ``{n}`` becomes the number of measurements.
        command: Measures it.
        area: The benchmark.
        scenario: The scenario.
        method: Millrace's method.
        figure: Its figure.
        rivals: Method of each rival, by the name that the page shows.
        rival_figure: Their figure; None for the same as Millrace's.
        second: Words and a second figure, shown after that of each method.
        judged: Figures of Millrace's method whose targets decide, by the name that the page shows; the figure itself
            if this is empty.
    """

    text: str
    command: str
    area: str
    scenario: str
    method: str
    figure: str
    rivals: Mapping[str, str] = field(default_factory=dict)
    rival_figure: str | None = None
    second: tuple[str, str] | None = None
    judged: Mapping[str, str] = field(default_factory=dict)


BEHIND, TOO_SMALL = ("behind", "behind_s"), ("times too few slots, per change", "bad_per_tuning")
CORES, STEPS, SECONDS = "core_seconds_vs_oracle", "reconfigurations_per_tuning", "batch_time_s"


def _of_stream(text: str, scenario: str, *fixed: int, cheaper: bool = False) -> Claim:
    """Return the claim about one stream, against some fixed numbers of slots and all other scalers.

    Args:
        text: The claim in words.
        scenario: The stream.
        fixed: The numbers of slots.
        cheaper: Whether it has a target relative to the smallest fixed size that keeps the lag goal.
    """
    against = {"relative to the smallest fixed size that keeps the goal": "core_seconds_vs_fixed"} if cheaper else {}
    return Claim(
        text,
        f"./millrace bench elastic --scenario {scenario}",
        *("elastic", scenario, "live", "core_seconds"),
        rivals={
            **{f"fixed {slots} slots": f"fixed_{slots}" for slots in fixed},
            "Spark's dynamic allocation": "spark_dra_tuned",
            "Kubernetes' rule on CPU": "hpa_cpu",
            "batch-ratio scaling": "batch_ratio",
        },
        second=BEHIND,
        judged={
            "rivals that are better in both": "better_rivals",
            **against,
            "share of the time behind": "behind_ratio",
            "downtime": "downtime_s",
        },
    )


LIVE = (
    _of_stream("Core-seconds for a day of load, replayed in four minutes", "day", 6, 4, cheaper=True),
    _of_stream("Core-seconds while the load rises sixfold at once and falls back", "step6", 6, 4),
    _of_stream(
        "Core-seconds while the load rises three times in two minutes, each time with a sudden end",
        "sawtooth",
        *(8, 6),
        cheaper=True,
    ),
    _of_stream("Core-seconds for an evening, a night without rows and the morning's peak", "silence", 4),
    Claim(
        "Core-seconds of a chain of three apps while the load rises fourfold and falls back",
        "./millrace bench graph --scenario step_x4",
        *("graph", "step_x4", "flow", "core_seconds"),
        rivals={
            "one pipeline per app": "cascade",
            "fixed slots for the peak": "fixed_peak",
            "DS2": "ds2",
            "ContTune": "conttune",
        },
        second=BEHIND,
        judged={
            "time to catch up, relative to one pipeline per app": "recover_vs_cascade",
            "rivals that are better in both": "better_rivals",
            "rows lost": "rows_lost",
        },
    ),
    Claim(
        "Time from decision to new executor, 95th percentile",
        "./millrace bench latency",
        *("latency", "one more", "millrace", "decision to registered, p95"),
    ),
    Claim(
        "Batch time if three of 32 state partitions hold a third of the rows",
        "./millrace bench placement --scenario skew",
        *("placement", "skew", "albic", SECONDS),
        rivals={
            "Spark's defaults": "spark_wait_3s",
            "`spark.locality.wait` 0": "spark_wait_0",
            "even placement": "even",
        },
        judged={
            "in the worst round, relative to Spark's defaults": "batch_time_vs_wait_3s",
            "in the worst round, relative to `spark.locality.wait` 0": "batch_time_vs_wait_0",
            "in the worst round, relative to even placement": "batch_time_vs_even",
        },
    ),
    Claim(
        "Core-seconds of a stream that is slow only because of skew",
        "./millrace bench integrate",
        *("integrate", "skew", "integrated", "core_seconds"),
        rivals={"slots decided before placement": "non_integrated", "four slots, placed evenly": "fixed"},
        second=BEHIND,
        judged={
            "in the worst round, relative to slots first": "core_seconds_vs_non_integrated",
            "slots added in the worst round": "slots_added",
            "seconds behind in the worst round, more than slots first": "behind_more_than_non_integrated_s",
        },
    ),
    Claim(
        "Time that drivers were alive for 32 streams, whose load needs one to four drivers over the day",
        "./millrace bench fleet --scenario sfvar",
        *("fleet", "sfvar", "horizon", "node_seconds"),
        rivals={
            "DRF-M": "drfm",
            "ARD": "ard",
            "fixed drivers, streams packed with hindsight": "fixed_peak",
            "fixed drivers for the mean": "even",
        },
        second=("95 % of rows are written within", "latency_p95_s"),
        judged={
            "relative to fixed drivers for the peak": "node_seconds_vs_fixed_peak",
            "relative to DRF-M": "node_seconds_vs_drfm",
            "moves per period more than DRF-M": "moves_per_period_above_drfm",
            "overloaded drivers and periods more than DRF-M": "overloaded_node_periods_above_drfm",
            "delay of a stream that moves, 95th percentile": "gap_p95_s",
            "rows lost": "rows_lost",
        },
    ),
    Claim(
        "Rows lost when {n} executors were killed while state moved",
        "./millrace bench placement --scenario kills",
        *("placement", "kills", "albic", "rows_lost"),
        judged={
            "": "rows_lost",
            "duplicated": "rows_doubled",
            "evaluations until balanced again": "evaluations_to_balance",
        },
    ),
    Claim(
        "Time to recover from an injected fault by itself, 95th percentile of {n}",
        "./millrace bench faults",
        *("faults", "all", "millrace", "recovered_p95_s"),
        judged={
            "": "recovered_p95_s",
            "not recovered": "not_recovered",
            "rows lost": "rows_lost",
            "rows duplicated": "rows_doubled",
        },
    ),
    Claim(
        "CPU time per tuple of a stream join",
        "./millrace bench esj --scenario spark_join",
        *("esj", "spark_join", "ours", "cpu_us_per_tuple"),
        rivals={"Spark's stream-stream join": "spark_join"},
        judged={"": "cpu_us_per_tuple", "matches that differ": "matches_different"},
    ),
    Claim(
        "Batch time of sliding windows of 60 minutes by one minute",
        "./millrace bench drfm --scenario panes",
        *("drfm", "panes_streaming", "panes", "seconds"),
        rivals={"Spark's windows": "spark_window"},
        judged={"speedup of the medians": "speedup", "rows that differ": "rows_different"},
    ),
    Claim(
        "CPU cores that Airflow and Millrace take for 50 pipelines, each evaluated once per minute",
        "./millrace bench many --scenario p50",
        *("many", "p50", "millrace", "cores, Airflow included"),
        judged={
            "": "cores, Airflow included",
            "from telemetry to decision, 95th percentile": "commit to Decision, p95",
        },
    ),
    Claim(
        "CPU time of one evaluation, with 50 pipelines and a week of telemetry",
        "./millrace bench control_scale --scenario p50_d7",
        *("control_scale", "p50_d7", "millrace", "evaluation_cpu_s"),
    ),
    Claim(
        "Batch time with telemetry, relative to none",
        "./millrace bench telemetry --scenario backlog",
        *("telemetry", "stateful backlog, 2 slots", "with/without", "time"),
    ),
    Claim(
        "Fixed cost of a batch, relative to plain spark-submit",
        "./millrace bench telemetry --scenario fixed_cost",
        *("telemetry", "fixed cost of a batch, 2 slots", "millrace/plain spark-submit, tuned", "batch"),
    ),
    Claim(
        "Start of the local stack",
        "./millrace bench stack",
        *("stack", "later start", "millrace", "healthy in"),
    ),
    Claim(
        "Predicted throughput, relative to the measurement",
        "./millrace bench capacity",
        *("capacity", "p = 4", "millrace", "predicted / measured"),
        rivals={"rows per batch duration": "rows / duration"},
    ),
)
"""What real Spark, processes and tables were measured doing; shown once their scenario has records."""
SIMULATED = (
    Claim(
        "Reconfigurations per change of load, if slots come in whole executors",
        "./millrace bench conttune --scenario executors_told",
        *("conttune", "executors_told", "flow", STEPS),
        rivals={"oracle": "oracle", "Flink's autoscaler": "flink_0.7_0.3", "DS2": "ds2"},
        second=TOO_SMALL,
        judged={"": STEPS, "times too few slots, per change": "bad_per_tuning"},
    ),
    Claim(
        "Core-seconds relative to an oracle that knows every throughput",
        "./millrace bench conttune --scenario paper",
        *("conttune", "paper", "flow", CORES),
        rivals={"Flink's autoscaler": "flink_0.7_0.3", "DS2": "ds2"},
        second=TOO_SMALL,
    ),
    Claim(
        "Settings of Flink's autoscaler (of four) that beat Millrace if throughput is three times as noisy as usual",
        "./millrace bench conttune --scenario noise3",
        *("conttune", "noise3", "flow", "frontier_dominated"),
    ),
    Claim(
        "Extra nodes for two days of taxi trips, relative to the optimum, if overloaded as rarely as DRF-M at 90 %",
        "./millrace bench drfm --scenario gps",
        *("drfm", "gps_frontier", "horizon", "above_optimum_at_drfm_full_0.9"),
        rivals={"DRF-M, nodes filled to 90 %": "drfm_full_0.9"},
        rival_figure="above_optimum_ratio",
        judged={
            f"overloaded as rarely as DRF-M's `{s}`": f"above_optimum_at_drfm_{s}"
            for s in ("k1", "k2", "k5", "full_0.8", "full_0.9")
        },
    ),
)
"""What decisions came to in simulations."""

"""The results of the scenarios as records: medians, and ratios judged by the worst round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from benchmarks.placement.drift import DriftRun
from benchmarks.placement.kills import KillRun
from benchmarks.placement.pairs import PairRun
from benchmarks.placement.resizing import ResizeRun
from benchmarks.placement.skew import ALBIC, EVEN, METHODS, WAITS, SteadyRun, load_distance
from benchmarks.record import Record, at_most
from benchmarks.record import median as median_of
from millrace.optimizers.albic.options import PlacementOptions

BENCH, SKEW, WAIT, LARGE = "placement", "skew", "process_wait", "skew_large_state"
DRIFT, OUT, IN = "drift", "scale_out", "scale_in"
PAIRS, ONE_HOST, KILLS = "one_to_one", "one_to_one_one_host", "kills"
PAIR_RIVALS = (EVEN, "spark_wait_0")
RESIZED = (ALBIC, "spark_wait_3s", "spark_wait_0")
DRIFT_LIMIT, LONGEST_BATCH_LIMIT = 0.75, 2.0
"""Highest ratio of our mean batch time to an even placement's, and of a batch around a change to the one before."""
LIMITS = {SKEW: {"spark_wait_3s": 0.6, "spark_wait_0": 0.95, "even": 1.0}, LARGE: {"spark_wait_0": 0.8}}
"""Highest ratio of our batch time to each rival's, by scenario."""
REMOTE_LIMIT, CPU_LIMIT, ONE_HOST_LIMIT = 0.3, 1.0, 1.0
"""Highest ratio of our remote bytes to a rival's; of processor time per row; and of batch time, on one host."""
ACHIEVED_LIMIT = 1.2
"""Highest ratio of the achieved to the planned value."""
EVALUATIONS_LIMIT = 2
BUDGET = PlacementOptions().budget
Round = dict[str, SteadyRun]
"""Each method's result in one round, by its name."""


def skew_records(rounds: Sequence[Round]) -> list[Record]:
    """Return the figures of the scenario ``skew``.

    Args:
        rounds: Each method's result, by its name; without failed ones.
    """
    return [*_times(SKEW, rounds), *_ratios(SKEW, rounds), *_plans([r[ALBIC] for r in rounds if ALBIC in r])]


def wait_records(rounds: Sequence[Round]) -> list[Record]:
    """Return the figures of the scenario ``process_wait``.

    Args:
        rounds: The result of each wait, by its name; without failed ones.
    """
    return list(_times(WAIT, rounds))


def large_state_records(rounds: Sequence[Round]) -> list[Record]:
    """Return the figures of the scenario ``skew_large_state``.

    Args:
        rounds: Each method's result, by its name; without failed ones.
    """
    return [*_times(LARGE, rounds), *_ratios(LARGE, rounds), *_loaded(rounds)]


def drift_records(rounds: Sequence[Mapping[str, DriftRun]]) -> Iterator[Record]:
    """Yield the figures of the scenario ``drift``; the worst round counts.

    Args:
        rounds: Each method's result, by its name; without failed ones.
    """
    for name in (ALBIC, EVEN):
        times = [r[name].batch_s for r in rounds if name in r]
        if times:
            yield median_of(BENCH, DRIFT, name, "mean_batch_time_s", times, "s")
    pairs = [(r[ALBIC], r[EVEN]) for r in rounds if ALBIC in r and EVEN in r]
    if pairs:
        worst = max(ours.batch_s / even.batch_s for ours, even in pairs)
        yield _judged("batch_time_vs_even", worst, "ratio", DRIFT_LIMIT, len(pairs), DRIFT)
    moves = [r[ALBIC].moves for r in rounds if ALBIC in r]
    if moves:
        yield _judged("moves", max(moves), "a plan", BUDGET, len(moves), DRIFT)


def resize_records(rounds: Sequence[Mapping[str, tuple[ResizeRun, ResizeRun]]]) -> Iterator[Record]:
    """Yield the figures of the scenarios ``scale_out`` and ``scale_in``; the worst round counts.

    Args:
        rounds: Results with two executors more, and two fewer, by method name; without failed ones.
    """
    for number, scenario in enumerate((OUT, IN)):
        for name in RESIZED:
            results = [r[name][number] for r in rounds if name in r]
            if not results:
                continue
            evaluations = [r.evaluations for r in results if r.evaluations is not None]
            if evaluations:
                yield _judged(
                    "evaluations_to_balance", max(evaluations), "", EVALUATIONS_LIMIT, len(evaluations), scenario
                )
            ratio, n = max(r.longest_ratio for r in results), len(results)
            target, holds = at_most(ratio, LONGEST_BATCH_LIMIT) if name == ALBIC else (None, None)
            yield Record(BENCH, scenario, name, "longest_batch_ratio", ratio, "ratio", n=n, target=target, holds=holds)
            yield median_of(BENCH, scenario, name, "batch_time_s", [r.batch_s for r in results], "s")


def kill_records(rounds: Sequence[KillRun]) -> Iterator[Record]:
    """Yield the figures of the scenario ``kills``, over all rounds."""
    if not rounds:
        return
    n = sum(r.kills for r in rounds)
    for figure, values, limit in (
        ("evaluations_to_balance", [r.evaluations for r in rounds], EVALUATIONS_LIMIT),
        ("rows_lost", [sum(r.rows_lost for r in rounds)], 0),
        ("rows_doubled", [sum(r.rows_doubled for r in rounds)], 0),
    ):
        yield _judged(figure, max(values), "", limit, n, KILLS)


def pair_records(scenarios: Mapping[str, Sequence[Mapping[str, PairRun]]]) -> Iterator[Record]:
    """Yield the figures of the scenarios ``one_to_one``; the worst round counts.

    Args:
        scenarios: Rounds of each scenario: each method's result, by its name; without failed ones.
    """
    for scenario, rounds in scenarios.items():
        for name in (ALBIC, *PAIR_RIVALS):
            results = [r[name] for r in rounds if name in r]
            if results:
                yield median_of(BENCH, scenario, name, "remote_mb", [r.remote_mb for r in results], "MB a batch")
                yield median_of(BENCH, scenario, name, "batch_time_s", [r.batch_s for r in results], "s")
                yield median_of(BENCH, scenario, name, "cpu_us_per_row", [r.cpu_us for r in results], "us")
        for rival in PAIR_RIVALS:
            both = [(r[ALBIC], r[rival]) for r in rounds if ALBIC in r and rival in r]
            against = rival.removeprefix("spark_")
            remote = [ours.remote_mb / theirs.remote_mb for ours, theirs in both if theirs.remote_mb > 0]
            if remote:
                yield _judged(f"remote_bytes_vs_{against}", max(remote), "ratio", REMOTE_LIMIT, len(remote), scenario)
            if both:
                worst = max(ours.cpu_us / theirs.cpu_us for ours, theirs in both)
                yield _judged(f"cpu_vs_{against}", worst, "ratio", CPU_LIMIT, len(both), scenario)
            if both and scenario == ONE_HOST:
                worst = max(ours.batch_s / theirs.batch_s for ours, theirs in both)
                yield _judged(f"batch_time_vs_{against}", worst, "ratio", ONE_HOST_LIMIT, len(both), scenario)


def _times(scenario: str, rounds: Sequence[Round]) -> Iterator[Record]:
    for name in {**METHODS, **WAITS}:
        results = [r[name] for r in rounds if name in r]
        if results:
            times, moves = [r.batch_s for r in results], max(r.moves for r in results)
            middle, low, high, n = median(times), min(times), max(times), len(times)
            yield Record(
                BENCH, scenario, name, "batch_time_s", middle, "s", low if n > 1 else None, high if n > 1 else None, n
            )
            yield _none_of_ours(scenario, name, "moves", moves, "a batch", n)
            if name == ALBIC:
                yield Record(BENCH, scenario, name, "late_plans", max(r.late_plans for r in results), "a run", n=n)


def _loaded(rounds: Sequence[Round]) -> Iterator[Record]:
    for name in METHODS:
        loaded = [r[name].loaded_mb for r in rounds if name in r]
        if loaded:
            yield _none_of_ours(LARGE, name, "state_bytes_loaded", max(loaded), "MB a batch", len(loaded))


def _none_of_ours(scenario: str, name: str, figure: str, value: float, unit: str, n: int) -> Record:
    target, holds = at_most(value, 0) if name == ALBIC else (None, None)
    return Record(BENCH, scenario, name, figure, value, unit, n=n, target=target, holds=holds)


def _ratios(scenario: str, rounds: Sequence[Round]) -> Iterator[Record]:
    """Yield our batch time divided by each rival's of the same round; the worst round counts."""
    for rival, limit in LIMITS[scenario].items():
        ratios = [r[ALBIC].batch_s / r[rival].batch_s for r in rounds if ALBIC in r and rival in r]
        if ratios:
            figure = f"batch_time_vs_{rival.removeprefix('spark_')}"
            yield _judged(figure, max(ratios), "ratio", limit, len(ratios), scenario)


def _plans(results: Sequence[SteadyRun]) -> Iterator[Record]:
    numbers = [r.evaluations for r in results if r.evaluations is not None]
    if numbers:
        yield _judged("evaluations_to_balance", max(numbers), "", EVALUATIONS_LIMIT, len(numbers))
    ratios = [r.achieved_s / r.plan.batch_after_s for r in results if r.plan and r.achieved_s is not None]
    if ratios:
        yield _judged("achieved_vs_planned", max(ratios), "ratio", ACHIEVED_LIMIT, len(ratios))
    both = [(r.distance, load_distance(r.plan.busy_after_s)) for r in results if r.plan and r.distance is not None]
    if both:
        found, planned = (list(values) for values in zip(*both, strict=True))
        yield median_of(BENCH, SKEW, ALBIC, "load_distance", found, "% of the mean")
        yield median_of(BENCH, SKEW, ALBIC, "load_distance_planned", planned, "% of the mean")
    ratios = [distance / wanted for distance, wanted in both if wanted > 0]
    if ratios:
        yield _judged("load_distance_vs_planned", max(ratios), "ratio", ACHIEVED_LIMIT, len(ratios))


def _judged(figure: str, value: float, unit: str, limit: float, n: int, scenario: str = SKEW) -> Record:
    target, holds = at_most(value, limit)
    return Record(BENCH, scenario, ALBIC, figure, value, unit, n=n, target=target, holds=holds)

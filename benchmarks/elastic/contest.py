"""Each stream with each method, round after round, and whether a rival beats ours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.delays_app import Feed, flight_rows
from benchmarks.elastic.attempts import Attempts
from benchmarks.elastic.capacity import BatchTime, measure, needed_slots
from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.judging import Cost, better_rivals, smallest_kept
from benchmarks.elastic.measure import downtime_s
from benchmarks.elastic.methods import LIVE, Method, fixed
from benchmarks.elastic.runs import FIGURES, Run, make_pipeline, run_stream, source_of
from benchmarks.elastic.streams import Stream
from benchmarks.record import Record, at_most, median

BENCH = "elastic"
FIXED = "fixed"
NEVER = ("rows_lost", "rows_doubled")
"""Figures for which the worst run counts; ours must be 0."""
MEASURING_PERIOD_S = 1.0
MOST_OF_FIXED = {"day": 0.85, "sawtooth": 0.85, "silence": 0.85}
"""Highest core-seconds relative to the smallest fixed size that keeps the lag goal, by stream."""
MOST_BEHIND = 0.05
"""Highest share of a stream's length in which the lag goal may be missed."""


@dataclass(frozen=True)
class Contest:
    """Streams with all methods.

    Attributes:
        cluster: The cluster.
        attempts: Runs the parts.
        period_s: Seconds between two evaluations.
        levels: Slots at which batch times are measured.
    """

    cluster: Cluster
    attempts: Attempts
    period_s: float
    levels: Sequence[int]

    def batch_times(self, wait_ms: float) -> Mapping[int, BatchTime]:
        """Return batch times on this machine, by slots; empty if measuring them fails."""

        def work(name: str) -> Mapping[int, BatchTime]:
            pipeline = make_pipeline(self.cluster, name, LIVE, wait_ms, MEASURING_PERIOD_S)
            feed = Feed(source_of(pipeline.home), flight_rows(1))
            with pipeline.running():
                return measure(pipeline, feed, self.levels, wait_ms)

        return self.attempts.attempt("batch times", f"wait {wait_ms:g} ms", work) or {}

    def run(self, stream: Stream, methods: Sequence[Method], runs: dict[str, Run]) -> None:
        """Run a stream with each method in turn, and store the runs that did not fail by method.

        Args:
            stream: The stream.
            methods: The methods that size the app.
            runs: Receives each run when it ends: an interruption loses no finished run.
        """
        for method in methods:
            run = self.attempts.attempt(stream.name, method.name, partial(self._run, stream, method), Run)
            if run is not None:
                runs[method.name] = run

    def _run(self, stream: Stream, method: Method, name: str) -> Run:
        return run_stream(self.cluster, name, stream, method, self.period_s)


def fixed_for(stream: Stream, times: Mapping[int, BatchTime], max_lag_s: float) -> tuple[Method, ...]:
    """Return the fixed-slot methods, from the slots that keep the lag goal at the mean rate to those for the stream.

    One more size follows: batch times may have been measured in a better moment.

    Args:
        stream: The stream.
        times: Batch times by slots; if they are unknown, this is empty and so is the result.
        max_lag_s: The lag goal.
    """
    if not times:
        return ()
    at_mean = [round(stream.mean)] * len(stream.counts)
    peak, mean = (needed_slots(counts, times, max_lag_s) for counts in (stream.counts, at_mean))
    enough = [slots for slots in sorted(times) if slots >= mean]
    chosen = [slots for slots in enough if slots <= peak]
    return tuple(fixed(f"{FIXED}_{slots}", slots) for slots in enough[: len(chosen) + 1])


def records(stream: Stream, rounds: Sequence[Mapping[str, Run]]) -> list[Record]:
    """Return a stream's figures by method, and whether ours holds against all others."""
    found = []
    by_method = _by_method(rounds)
    for method, runs in by_method.items():
        for figure, unit in FIGURES.items():
            record = median(BENCH, stream.name, method, figure, [run.figures[figure] for run in runs], unit)
            found.append(_worst(record, max(run.figures[figure] for run in runs)) if figure in NEVER else record)
        found.append(_downtime(stream, method, rounds))
    if LIVE.name in by_method:
        costs = [{name: run.cost for name, run in runs.items()} for runs in rounds]
        beaten = better_rivals(costs, LIVE.name)
        found.append(judged(stream.name, "better_rivals", beaten, "runs", 0, len(by_method[LIVE.name])))
        found += _promise(stream, [run.cost for run in by_method[LIVE.name]], costs)
    return found


def judged(scenario: str, figure: str, value: float, unit: str, limit: float | None, n: int = 1) -> Record:
    """Return a figure of ours that must not exceed a limit; without one, it has no target."""
    target, holds = (None, None) if limit is None else at_most(value, limit)
    return Record(BENCH, scenario, LIVE.name, figure, value, unit, n=n, target=target, holds=holds)


def _promise(stream: Stream, ours: Sequence[Cost], rounds: Sequence[Mapping[str, Cost]]) -> Iterator[Record]:
    """Yield how long the worst run is behind, and what it costs relative to a fixed size that keeps the lag goal."""
    behind = max(cost.behind_s for cost in ours) / len(stream.counts)
    yield judged(stream.name, "behind_ratio", behind, "ratio", MOST_BEHIND, len(ours))
    kept = [(costs[LIVE.name], smallest_kept(_by_slots(costs))) for costs in rounds if LIVE.name in costs]
    ratios = [live.core_seconds / least.core_seconds for live, least in kept if least is not None]
    if ratios:
        limit = MOST_OF_FIXED.get(stream.name)
        yield judged(stream.name, "core_seconds_vs_fixed", max(ratios), "ratio", limit, len(ratios))


def _by_slots(costs: Mapping[str, Cost]) -> dict[int, Cost]:
    """Return the costs of the fixed sizes."""
    return {int(name.removeprefix(f"{FIXED}_")): cost for name, cost in costs.items() if name.startswith(FIXED)}


def _by_method(rounds: Sequence[Mapping[str, Run]]) -> dict[str, list[Run]]:
    by_method: dict[str, list[Run]] = defaultdict(list)
    for runs in rounds:
        for name, run in runs.items():
            by_method[name].append(run)
    return by_method


def _worst(record: Record, worst: float) -> Record:
    target, holds = at_most(worst, 0) if record.method == LIVE.name else (None, None)
    return replace(record, value=worst, target=target, holds=holds)


def _downtime(stream: Stream, method: str, rounds: Sequence[Mapping[str, Run]]) -> Record:
    """Return the downtime beyond that of the same round's fixed slots, whose driver never changes."""
    values = []
    for runs in rounds:
        if method in runs:
            unchanged = [gap for name in runs if name.startswith(FIXED) for gap in runs[name].gaps]
            values.append(downtime_s(runs[method].gaps, max([runs[method].trigger_s, *unchanged])))
    record = median(BENCH, stream.name, method, "downtime_s", values, "s")
    if method != LIVE.name:
        return record
    target, holds = at_most(max(values), 0)
    return replace(record, target=target, holds=holds)

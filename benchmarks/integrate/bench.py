"""Placement before slots, live ([ALBIC], Algorithm 1): a stream that is slow only because of skew, on real Spark.

Three of 32 partitions have a third of the rows, and start on one of four executors. Spread evenly, the rows need three
fifths of the slots' time; as they are, the query falls behind. The load is steady.

Methods (all with ``flow`` and ``albic``, on the same script and cluster):
    integrated      the tuner knows what placement alone would change
    non_integrated  the tuner decides on slots first; partitions are then placed on what it leads to
    fixed           four slots, and partitions stay where they are

Figures:
    core_seconds              cores of executors, from their start to their end, until the last row is processed
    behind_s, longest_lag_s   from a row's arrival to the end of its batch
    slots_added               slots added by all versions, not counting those that were freed
    moves                     partitions that versions put on another executor

A round takes a quarter of an hour. Each ``--seed`` has other hot partitions and another order of the methods.

[ALBIC] Madsen, Zhou and Cao: Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine, 2016.
"""

from __future__ import annotations

import random
import signal
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.elastic.attempts import Attempts
from benchmarks.elastic.cluster import embedded_cluster
from benchmarks.elastic.judging import NOISE_S
from benchmarks.integrate.runs import FIGURES, METHODS, OURS, RIVAL, Run, run_method
from benchmarks.record import Record, at_most, median
from benchmarks.seeds import first_run
from millrace.local.stack.progress import say

BENCH, SKEW = "integrate", "skew"
SCENARIOS = (SKEW,)
CORE_SECONDS_LIMIT = 0.7
"""Highest ratio of our core-seconds to those of deciding on slots first."""
NEVER = ("slots_added", "rows_lost", "rows_doubled")
"""Figures of ours for which the worst run counts; they must be 0."""


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        rounds: Runs of each method.
        length_s: Length of the stream, seconds.
        period_s: Seconds between two evaluations.
    """

    rounds: int
    length_s: int
    period_s: float


WHOLE, QUICK = Size(3, 300, 8.0), Size(1, 150, 8.0)


def run(quick: bool, scenarios: Collection[str] = SCENARIOS, seed: int = 0) -> list[Record]:
    """Measure all methods, round after round. If interrupted, return the figures so far.

    Args:
        quick: One round of a short stream.
        scenarios: Which of :data:`SCENARIOS`.
        seed: Chooses the hot partitions and the order of the methods.
    """
    size, attempts, rounds = QUICK if quick else WHOLE, Attempts(BENCH), list[dict[str, Run]]()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a clean shutdown, as with Ctrl-C
    try:
        with (
            tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder,
            embedded_cluster(Path(folder).resolve()) as cluster,
        ):
            for number in range(first_run(seed), first_run(seed) + (size.rounds if SKEW in scenarios else 0)):
                rounds.append({})
                methods = list(METHODS)
                random.Random(number).shuffle(methods)  # noqa: S311 - what disturbs the machine hits others first
                for method in methods:
                    run = partial(run_method, cluster, method=method, seed=number)
                    run = partial(run, length_s=size.length_s, period_s=size.period_s)
                    measured = attempts.attempt(SKEW, method.name, run)
                    if measured is not None:
                        rounds[-1][method.name] = measured
    except KeyboardInterrupt:
        say("interrupted: these are the figures so far")
    return [*records(rounds), *attempts.failures]


def records(rounds: Sequence[Mapping[str, Run]]) -> list[Record]:
    """Return the figures by method, and whether ours meets its targets; the worst round counts.

    Args:
        rounds: The run of each method, by its name; without failed ones.
    """
    found = []
    for method in METHODS:
        runs = [of[method.name] for of in rounds if method.name in of]
        for figure, unit in FIGURES.items() if runs else ():
            values = [run.figures[figure] for run in runs]
            if method is OURS and figure in NEVER:
                found.append(_judged(figure, max(values), unit, 0.0, len(values)))
            else:
                found.append(median(BENCH, SKEW, method.name, figure, values, unit))
    pairs = [(of[OURS.name].cost, of[RIVAL.name].cost) for of in rounds if {OURS.name, RIVAL.name} <= of.keys()]
    if pairs:
        ratio = max(ours.core_seconds / theirs.core_seconds for ours, theirs in pairs)
        later_s = max(ours.behind_s - theirs.behind_s for ours, theirs in pairs)
        n = len(pairs)
        found.append(_judged("core_seconds_vs_non_integrated", ratio, "ratio", CORE_SECONDS_LIMIT, n))
        found.append(_judged("behind_more_than_non_integrated_s", later_s, "s", NOISE_S, n))
    return found


def _judged(figure: str, value: float, unit: str, limit: float, n: int) -> Record:
    target, holds = at_most(value, limit)
    return Record(BENCH, SKEW, OURS.name, figure, value, unit, n=n, target=target, holds=holds)

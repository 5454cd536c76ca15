"""Random interleavings of MP-2PF: pairs lost and doubled, and workload differences at quiescence.

Ours faces links that lose, double and reorder messages, workers that come and go, and changing block sizes. The paper's
literal protocol handles none of that, nor the end of a stream: it gets perfect links, and still fails.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context

from benchmarks.esj.schedule import Outcome, play, random_course
from benchmarks.record import Record
from millrace.joins.mp2pf.rules import Rules

BENCH, SCENARIO = "esj", "interleavings"
RUNS, QUICK_RUNS = 102_000, 3_000
RIVAL_RUNS, QUICK_RIVAL_RUNS = 10_000, 600
CHUNK = 1_000
PROCESSES = 2
TUPLES = 30
"""Most tuples of both streams together."""
WINDOWS = (0, 1, 3, 8, 1000)


@dataclass(frozen=True)
class Method:
    """A reading of the protocol.

    Attributes:
        rules: Rules of its workers; windows are drawn for each run.
        disturbed: Whether messages may be lost, doubled and overtaken, and workers may come and go.
        flush: Whether both streams end with a punctuation.
    """

    rules: Rules
    disturbed: bool = False
    flush: bool = True


LITERAL = Rules(0, 0, copies="both streams", sizes="reported")
METHODS = {
    "ours": Method(Rules(0, 0), disturbed=True),
    "literal": Method(LITERAL, flush=False),
    "literal_flushed": Method(LITERAL),
    "literal_no_copies": Method(replace(LITERAL, copies="no stream")),
}


def records(quick: bool, first: int = 0) -> Iterator[Record]:
    """Run every method.

    Args:
        quick: Fewer runs.
        first: Seed of the first run.
    """
    for name, method in METHODS.items():
        ours = name == "ours"
        runs = (QUICK_RUNS if quick else RUNS) if ours else QUICK_RIVAL_RUNS if quick else RIVAL_RUNS
        total = tally(method, runs, first)
        figures = {
            "runs": (runs, "runs"),
            "pairs": (total.pairs, "pairs"),
            "pairs_lost": (total.lost, "pairs"),
            "pairs_doubled": (total.doubled, "pairs"),
            "workload_difference_over_block": (total.over, "tuples"),
            "quiescent_points": (total.quiescent, "points"),
            "runs_stuck": (total.stuck, "runs"),
        }
        if method.flush:
            figures["tuples_left"] = (total.left, "tuples")
        for figure, (value, unit) in figures.items():
            yield Record(BENCH, SCENARIO, name, figure, value, unit, n=runs)


def tally(method: Method, runs: int, first: int = 0) -> Outcome:
    """Return the summed outcome of a method's runs.

    Args:
        method: A reading of the protocol.
        runs: Number of runs.
        first: Seed of the first run.
    """
    end = first + runs
    chunks = [range(at, min(at + CHUNK, end)) for at in range(first, end, CHUNK)]
    total = Outcome()
    # a fork of a process with threads may hang, so these processes are spawned
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for part in pool.map(partial(run_chunk, method), chunks):
            total = total.plus(part)
    return total


def run_chunk(method: Method, seeds: range) -> Outcome:
    """Return the summed outcome of some runs.

    Args:
        method: A reading of the protocol.
        seeds: One per run.
    """
    total = Outcome()
    for seed in seeds:
        uniform = random.Random(seed).random  # noqa: S311 - draws, no secrets

        def choose(n: int, uniform=uniform) -> int:
            return int(uniform() * n)

        rules = replace(method.rules, window_r=WINDOWS[choose(5)], window_s=WINDOWS[choose(5)])
        course = replace(random_course(choose, TUPLES, disturbed=method.disturbed), flush=method.flush)
        found = play(course, rules, choose)
        total = total.plus(found)
    return total

"""Pipelines of several apps live: the same load for every way to size them, on the same cluster.

Methods (``methods.py``): ours is one pipeline of several apps with ``flow``. Rivals are one pipeline per app, each with
``flow`` (the cascade); ``ds2``, ``dhalion`` and ``conttune`` on the same graph; and fixed slots that the peak needs.
Each app waits for a real time per row and leaves the processor free, so more slots are faster even on a small machine.
A controller process per pipeline does the DAG's work, as in ``bench elastic``.

Figures:
    core_seconds               cores of executors, from their start to their end, until the last row is processed
    behind_s, longest_lag_s    from a row's arrival at the first source until the last app has processed what came from
                               it (``lag.py``)
    reconfigurations_per_rate  versions that changed slots, per rate of the load
    bad_configurations         sizes that sustain less than arrives, by the last settled evaluation (``changes.py``)
    reconfigurations_of_step   versions that changed slots between a step and its end, until all apps had their size
    recover_s                  from the step until the lag is back under the goal

Each scenario takes at most an hour. With ``--json docs/benchmarks`` each has its own file.
"""

from __future__ import annotations

import random
import signal
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.elastic.attempts import Attempts
from benchmarks.elastic.cluster import embedded_cluster
from benchmarks.elastic.judging import better_rivals
from benchmarks.graph.loads import Load, papers_sequence, step_x4
from benchmarks.graph.methods import CASCADE, METHODS, OURS, QUICK_METHODS
from benchmarks.graph.runs import FIGURES, STEP_FIGURES, Run, run_load
from benchmarks.graph.workloads import WORKLOADS
from benchmarks.record import Record, at_most
from millrace.local.stack.progress import say

BENCH = "graph"
STEP = "step_x4"
STEP_WORKLOAD = "wordcount"
"""A chain of three apps."""
SCENARIOS = (STEP, *WORKLOADS)
QUICK_SCENARIOS = (STEP,)
LIMITS = {"rows_lost": 0.0, "rows_doubled": 0.0, "reconfigurations_of_step": 1.0}
RECOVERY_LIMIT = 0.5
"""Ours, relative to the cascade's."""


@dataclass(frozen=True)
class Size:
    """How long is measured.

    Attributes:
        step_s: Seconds before, during and after a step.
        rate_s: Seconds per rate of a sequence.
        period_s: Seconds between two evaluations.
    """

    step_s: tuple[int, int, int]
    rate_s: int
    period_s: float


WHOLE = Size((120, 150, 90), 50, 8.0)
QUICK = Size((90, 110, 40), 25, 8.0)


def run(quick: bool, scenarios: Collection[str] = SCENARIOS, seed: int = 0, resume: Path | None = None) -> list[Record]:
    """Measure all methods. Report failures and continue with the rest. If interrupted, return the figures so far.

    Args:
        quick: Ours and the cascade on a short load; unless scenarios are named, only :data:`QUICK_SCENARIOS`.
        scenarios: Which of :data:`SCENARIOS`.
        seed: Seed of the rows, of the order of the methods, and of the rates of a sequence.
        resume: Folder with the runs of methods that have been measured before; None to measure all.
    """
    size, methods, attempts = (
        QUICK if quick else WHOLE,
        list(QUICK_METHODS if quick else METHODS),
        Attempts(BENCH, resume),
    )
    chosen = QUICK_SCENARIOS if quick and scenarios is SCENARIOS else scenarios
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a clean shutdown, as with Ctrl-C
    random.Random(seed).shuffle(methods)  # noqa: S311 - what disturbs the machine hits different methods first
    runs: dict[str, dict[str, Run]] = {}
    try:
        with (
            tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder,
            embedded_cluster(Path(folder).resolve()) as cluster,
        ):
            for scenario in (name for name in SCENARIOS if name in chosen):
                workload = WORKLOADS[STEP_WORKLOAD if scenario == STEP else scenario]
                load = load_of(scenario, workload.unit_rows_per_s, size, seed)
                found = runs.setdefault(scenario, {})
                for method in methods:
                    work = partial(run_load, cluster, workload, load, method, size.period_s, seed)
                    measured = attempts.attempt(scenario, method.name, work, Run)
                    if measured is not None:
                        found[method.name] = measured
    except KeyboardInterrupt:
        say("interrupted: these are the figures so far")
    return [*(r for scenario, found in runs.items() for r in records(scenario, found)), *attempts.failures]


def load_of(scenario: str, unit: float, size: Size, seed: int) -> Load:
    """Return the load of a scenario; for the parameters see :class:`Size` and :mod:`benchmarks.graph.loads`."""
    return step_x4(unit, size.step_s) if scenario == STEP else papers_sequence(unit, size.rate_s, seed)


def records(scenario: str, runs: Mapping[str, Run]) -> list[Record]:
    """Return a scenario's figures by method, and whether ours meets its targets.

    Args:
        scenario: The scenario.
        runs: The runs that did not fail, by method.
    """
    found = []
    for method, measured in runs.items():
        for figure, unit in {**FIGURES, **STEP_FIGURES}.items():
            if figure in measured.figures:
                limit = LIMITS.get(figure) if method == OURS.name else None
                found.append(_record(scenario, method, figure, measured.figures[figure], unit, limit))
    if OURS.name in runs:
        beaten = better_rivals([{method: measured.cost for method, measured in runs.items()}], OURS.name)
        found.append(_record(scenario, OURS.name, "better_rivals", beaten, "runs", 0.0))
    if scenario == STEP and {OURS.name, CASCADE.name} <= runs.keys():
        ours, cascade = (runs[name].figures["recover_s"] for name in (OURS.name, CASCADE.name))
        ratio = ours / max(cascade, 1.0)  # a cascade that is never behind leaves nothing to gain
        found.append(_record(scenario, OURS.name, "recover_vs_cascade", ratio, "ratio", RECOVERY_LIMIT))
    return found


def _record(scenario: str, method: str, figure: str, value: float, unit: str, limit: float | None) -> Record:
    target, holds = (None, None) if limit is None else at_most(value, limit)
    return Record(BENCH, scenario, method, figure, value, unit, target=target, holds=holds)

"""One run of one method on one scenario, and many of them in worker processes."""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from benchmarks.conttune.cases import WARM_OF, Case, made
from benchmarks.conttune.episodes import ineffective, recovery
from benchmarks.conttune.methods import METHODS
from benchmarks.conttune.wrapped import Timed
from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.run import drive
from benchmarks.simulation.scenarios import WARM
from benchmarks.simulation.score import score
from benchmarks.threads import one_thread


@dataclass(frozen=True)
class Job:
    """A worker's task: a scenario and a method by name, and the number of the run, which is its seed."""

    scenario: str
    method: str
    run: int


@dataclass(frozen=True)
class Outcome:
    """The result of a job.

    Attributes:
        job: The job.
        figures: By scenario and figure; more than one scenario if a run is scored twice.
        error: Why there are no figures, one line; None on success.
    """

    job: Job
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    error: str | None = None


def jobs(case: Case, first: int = 0) -> list[Job]:
    """Return the jobs of a case, with runs numbered from ``first``."""
    return [Job(case.scenario, method, first + run) for run in range(case.runs) for method in case.methods]


def execute(job: Job) -> Outcome:
    """Do a job; report an exception of a method instead of raising it, to let the other jobs run."""
    try:
        return Outcome(job, _figures(job))
    except Exception as error:
        return Outcome(job, error=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")


def outcomes(wanted: Sequence[Job], workers: int) -> Generator[Outcome]:
    """Do jobs and yield their results, in order.

    Args:
        wanted: The jobs.
        workers: Number of processes, >= 1; 0 runs everything in this one.
    """
    if not workers:
        with one_thread():
            yield from map(execute, wanted)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin)
    try:
        yield from pool.map(execute, wanted)
    finally:
        pool.shutdown(cancel_futures=True)


def processors() -> int:
    """Return how many processes can work at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _begin() -> None:
    """Prepare a worker: one thread for linear algebra, and it ends when its parent process ends."""
    one_thread()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # a killed parent cannot notify its workers: they would wait forever
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _figures(job: Job) -> Mapping[str, Mapping[str, float]]:
    scenario = made(job.scenario, job.run)
    plant = SimulatedPlant(scenario, job.run)
    optimizer = Timed(METHODS[job.method].make(plant))
    run = drive(plant, optimizer)
    figures = {**score(run), **_times(optimizer.decisions_ms), "tunings": float(len(scenario.workload.tunings))}
    if scenario.drift.events:
        figures["reconfigurations_to_recover"] = recovery(run)
    if scenario.curves:
        figures["ineffective_steps"] = ineffective(run, plant)
    if job.scenario not in WARM_OF:
        return {job.scenario: figures}
    warm = {**score(run, WARM), "tunings": float(len(scenario.workload.tunings) - WARM)}
    return {job.scenario: figures, WARM_OF[job.scenario]: warm}


def _times(decisions_ms: Sequence[float]) -> Mapping[str, float]:
    if not decisions_ms:
        return {"decision_ms": math.nan, "decision_ms_p95": math.nan}
    median, p95 = np.quantile(decisions_ms, (0.5, 0.95))
    return {"decision_ms": float(median), "decision_ms_p95": float(p95)}

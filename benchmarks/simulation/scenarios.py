"""The catalogue of cases, by name and number of the run.

===============  ======================================================================================================
paper            The paper's synthetic workloads: 6 queries x 6 permutations, run by run; abilities vary with the seed.
paper_warm       The same, scored from the eleventh tuning: every rate has been seen once.
dag12            12 operators behind 3 sources, on permutations.
noise3           The paper's with three times the noise of processing ability, whose size measurements report.
noise3_untold    The same, but measurements do not report it.
positive, heavy  The paper's with measurements that are always too high, and with heavy tails.
outliers         The paper's, and one period in ten measures half or one and a half times the truth.
wiggle4, wiggle8 The paper's, with abilities of single levels 4 and 8 % off any smooth curve instead of 1.5 %.
amdahl, usl, executors
                 The paper's with processing abilities of one family: Amdahl's law; Gunther's, which falls in the end;
                 whole executors of 2 to 5 cores, drawn for each operator and not reported.
executors_told   The paper's in whole executors of 2 to 5 cores, drawn for each job; as on a cluster, their size is
                 reported and no other p is allowed.
drift            The paper's, and abilities fall by a quarter: in turn of one operator, of all, of all gradually.
window_noise     Q5 and Q8 with windows that emit very unevenly.
plateau          Q1, Q2 and word count with an operator that cannot reach the three highest rates.
diurnal          Days that rise and fall, with spikes, one of them every day at the same time.
random_walk      A rate that wanders.
etl, monitoring  The paper's recorded rates as five-minute maxima, on jobs like their original ones, which start as
                 over-provisioned as before tuning.
video            A generated trace (the paper's third is not published) on a job of 3 operators.
===============  ======================================================================================================

A name with the suffix ``_mb`` is the same case on a micro-batch app, whose source is read in limited batches. There a
plateau affects all operators, and uneven windows appear in no signal of the app. With ``_live`` instead, its slots are
executors that come and go without a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.simulation.ability import CORES, MIXED, Families
from benchmarks.simulation.ability import plateau as flat
from benchmarks.simulation.drift import Drift, Event
from benchmarks.simulation.noise import HEAVY, OUTLIERS, POSITIVE, Noise, Window
from benchmarks.simulation.scenario import MICRO_BATCH, PAPERS, PLANNED, MicroBatch, Scenario
from benchmarks.simulation.shape import Shape
from benchmarks.simulation.shapes import QUERIES, dag12, etl, monitoring, q1, q2, q5, q8, video, wordcount
from benchmarks.simulation.workload import (
    PAPERS_EXAMPLE,
    TUNING_S,
    Workload,
    diurnal,
    permutation,
    random_walk,
    recorded,
    stepwise,
)
from millrace.model.errors import MillraceError
from millrace.model.objective import Bounds

SUFFIX, LIVE = "_mb", "_live"
LIVE_S = 6.0
"""From a decision to three more executors on two cores, by ``./millrace bench elastic --scenario latency``."""
PERMUTATIONS = 6
WARM = 10
Values = Sequence[float]


def scenario(name: str, run_index: int = 0, values: Values | None = None, phase_s: float = 0.0) -> Scenario:
    """Return a case.

    Args:
        name: One of :func:`names`.
        run_index: Number of the run, >= 0: which query, permutation or kind of drift. The plant's seed draws the rest;
            a run's number is a good seed.
        values: The recorded series, one value per minute; for ``etl`` and ``monitoring`` only.
        phase_s: Offset of workload changes within an evaluation, >= 0.

    Raises:
        MillraceError: If the name is unknown, or recorded values are missing.
    """
    base = base_name(name)
    if base not in _MAKERS:
        raise MillraceError("scenario", name, ", ".join(names()), "Name one of them.")
    made = _MAKERS[base](run_index, values)
    if phase_s:
        made = replace(made, workload=made.workload.delayed(phase_s))
    if base != name:
        made = _as_micro_batch(made)
    if name.endswith(LIVE):
        made = replace(made, micro_batch=replace(made.micro_batch, live_s=LIVE_S))
    return replace(made, name=name)


def base_name(name: str) -> str:
    """Return a case's name without the suffix for its execution."""
    return name.removesuffix(SUFFIX).removesuffix(LIVE)


def names() -> tuple[str, ...]:
    """Return all names."""
    return tuple(name + suffix for suffix in ("", SUFFIX, LIVE) for name in _MAKERS)


def _units(shape: Shape) -> tuple[float, ...]:
    return tuple(shape.units.values())


def _permuted(shape: Shape, number: int) -> Workload:
    """Return one of six permutations of a job's rates, the first being the paper's own."""
    if number == 0:
        return stepwise(_units(shape), [float(m) for m in PAPERS_EXAMPLE * 2])
    return permutation(_units(shape), [len(shape.vertices), *shape.name.encode(), number])


def _paper(run_index: int, _: Values | None = None) -> Scenario:
    shape = QUERIES[run_index % len(QUERIES)]()
    return Scenario("paper", shape, _permuted(shape, run_index // len(QUERIES) % PERMUTATIONS))


def _warm(run_index: int, _: Values | None) -> Scenario:
    return replace(_paper(run_index), from_tuning=WARM)


def _dag12(run_index: int, _: Values | None) -> Scenario:
    shape = dag12()
    return Scenario("dag12", shape, _permuted(shape, run_index % PERMUTATIONS))


def _with_noise(noise: Noise) -> Callable[[int, Values | None], Scenario]:
    return lambda run_index, _: replace(_paper(run_index), noise=noise)


def _with_families(families: Families) -> Callable[[int, Values | None], Scenario]:
    return lambda run_index, _: replace(_paper(run_index), families=families)


def _executors_told(run_index: int, _: Values | None) -> Scenario:
    cores = int(np.random.default_rng([run_index]).integers(*CORES))
    whole = Bounds(cores, PAPERS.max_slots - PAPERS.max_slots % cores, cores)
    return replace(_paper(run_index), families=Families({f"executors_{cores}": 1.0}), bounds=whole)


def _drift(run_index: int, _: Values | None) -> Scenario:
    """Return a case that drifts in the second cycle, in the middle of a tuning, when nothing else changes."""
    made = _paper(run_index)
    kind = (run_index + run_index // len(QUERIES)) % 3
    at = (WARM + 1 + run_index % 4 + 0.5) * TUNING_S
    heaviest = max(made.shape.sizable, key=lambda name: made.shape.vertex[name].levels)
    event = (Event(at, operators=(heaviest,)), Event(at), Event(at, over_s=5 * TUNING_S))[kind]
    return replace(made, drift=Drift((event,)))


def _window_noise(run_index: int, _: Values | None) -> Scenario:
    shape = (q5, q8)[run_index % 2](Window(near_zero=0.2, residue=0.02, sd=0.25))
    return Scenario("window_noise", shape, _permuted(shape, run_index // 2 % PERMUTATIONS))


def _plateau(run_index: int, _: Values | None) -> Scenario:
    shape = (q1, q2, wordcount)[run_index % 3]()
    flat_at = {q1: "map", q2: "filter", wordcount: "count"}[(q1, q2, wordcount)[run_index % 3]]
    at = float(np.random.default_rng([run_index, len(PAPERS_EXAMPLE)]).integers(8, 15))
    return Scenario(
        "plateau",
        shape,
        _permuted(shape, run_index // 3 % PERMUTATIONS),
        curves={flat_at: flat(0.85, at)},
        reach={flat_at: REACHED},
    )


REACHED = 0.75
"""Share of the highest rate that passes a plateau."""


def _diurnal(run_index: int, _: Values | None) -> Scenario:
    shape = QUERIES[run_index % len(QUERIES)]()
    return Scenario("diurnal", shape, diurnal(_units(shape), [run_index]))


def _random_walk(run_index: int, _: Values | None) -> Scenario:
    shape = QUERIES[run_index % len(QUERIES)]()
    return Scenario("random_walk", shape, random_walk(_units(shape), [run_index]))


def _etl(_: int, values: Values | None) -> Scenario:
    shape = etl()
    ran = {**dict.fromkeys(shape.sizable, 8), "transform": 350}
    workload = recorded(_units(shape), _given("etl", values))
    return Scenario("etl", shape, workload, bounds=Bounds(1, 500), start_p=ran)


def _monitoring(_: int, values: Values | None) -> Scenario:
    shape = monitoring()
    ran = {"metrics": 72, "events": 6, "logs": 57, "metrics_sink": 11, "events_sink": 3, "logs_sink": 9}
    workload = recorded(_units(shape), _given("monitoring", values))
    return Scenario("monitoring", shape, workload, bounds=Bounds(1, 150), start_p=ran)


def _video(run_index: int, _: Values | None) -> Scenario:
    rng = np.random.default_rng([run_index])
    minutes = np.arange(120)
    slow = 1 + 0.25 * np.sin(2 * np.pi * (minutes / 120 + rng.uniform()))
    bursts = 1 + 0.4 * (rng.random(120) < BURST_RATIO)
    values = slow * bursts * np.exp(0.06 * rng.standard_normal(120))
    shape = video()
    return Scenario("video", shape, recorded(_units(shape), [float(v) for v in values]), bounds=Bounds(1, 150))


BURST_RATIO = 0.03
"""Share of a video trace's minutes with many viewers at once."""


def _given(name: str, values: Values | None) -> Values:
    if values is None:
        raise MillraceError("scenario.values", None, "the recorded rates", f"Pass the series of {name}.")
    return values


def _as_micro_batch(made: Scenario) -> Scenario:
    curves, reach = made.curves, made.reach
    if curves:
        (curve,), operators = curves.values(), made.shape.sizable
        curves, reach = dict.fromkeys(operators, curve), dict.fromkeys(operators, REACHED)
    return replace(
        made,
        execution=MICRO_BATCH,
        objective=PLANNED,
        bounds=made.bounds if made.bounds.step > 1 else PAPERS,
        curves=curves,
        reach=reach,
        micro_batch=MicroBatch(batch_rows_limit=round(LIMIT_S * sum(made.workload.peak))),
    )


LIMIT_S = 8.0
"""A full batch holds the peak arrivals of this time, more than any batch that keeps up. Without a limit, an app with
one slot at nine times its capacity is blind for twenty minutes: each batch is eight times as long as the last."""


_MAKERS: Mapping[str, Callable[[int, Values | None], Scenario]] = {
    "paper": _paper,
    "paper_warm": _warm,
    "dag12": _dag12,
    "noise3": _with_noise(Noise(scale=3.0)),
    "noise3_untold": _with_noise(Noise(scale=3.0, told=0.0)),
    "positive": _with_noise(Noise(POSITIVE)),
    "heavy": _with_noise(Noise(HEAVY)),
    "outliers": _with_noise(Noise(OUTLIERS, told=0.0)),
    "wiggle4": _with_families(replace(MIXED, wiggle_sd=0.04)),
    "wiggle8": _with_families(replace(MIXED, wiggle_sd=0.08)),
    "amdahl": _with_families(Families({"amdahl": 1.0})),
    "usl": _with_families(Families({"usl": 1.0})),
    "executors": _with_families(Families({"executors": 1.0})),
    "executors_told": _executors_told,
    "drift": _drift,
    "window_noise": _window_noise,
    "plateau": _plateau,
    "diurnal": _diurnal,
    "random_walk": _random_walk,
    "etl": _etl,
    "monitoring": _monitoring,
    "video": _video,
}

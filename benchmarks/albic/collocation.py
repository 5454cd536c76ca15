"""Collocation and balance by period: ours, ALBIC and COLA on jobs 1 to 4, a chain, and disjoint pairs.

Every method starts from the same placement and sees the same traffic. COLA has no notion of a budget, so it gets none;
the other methods may move as many groups per period as the paper allows. Figures are taken right after the moves of a
period, on the traffic that they were planned for ([ALBIC], Section 5).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from benchmarks.albic import flights
from benchmarks.albic.flight_groups import GROUPS
from benchmarks.albic.methods import METHODS, cluster_of, problem_of
from benchmarks.albic.rivals.potc import route
from benchmarks.albic.shapes import MOVE_POINTS, Shape, chained, made_up, paired
from benchmarks.record import Record, at_most, median
from benchmarks.simulation.placement import Cluster, Outcome, PeriodTraffic, PlacementPlant

BENCH = "albic"
SEEDS = 5
LAST = 5
"""Periods that count as the end of a run."""
FULL = 0.999
SETTLING = 4
"""Balance must be reached within this many periods after full collocation."""


@dataclass(frozen=True)
class Series:
    """One run.

    Attributes:
        outcomes: By period.
        seconds: Processor time of each plan.
        gaps: Time of a batch above the proven minimum, as a share of it, by period.
    """

    outcomes: Sequence[Outcome]
    seconds: Sequence[float]
    gaps: Sequence[float]


def follow(shape: Shape, method: str, seed: int) -> Series:
    """Run a method on a scenario.

    Args:
        shape: The scenario.
        method: Name of the method.
        seed: Seed of the first placement, the synthetic traffic and the method.
    """
    plant, make = shape.plant(seed), METHODS[method]
    outcomes, seconds, gaps = [], [], []
    for _ in range(shape.periods):
        cluster = cluster_of(plant, shape.budget)
        begun = time.process_time()
        node = make(cluster, seed)
        seconds.append(time.process_time() - begun)
        gaps.append(cluster.batch_s(node) / cluster.bound_s() - 1)
        outcomes.append(plant.apply(node))
    return Series(outcomes, seconds, gaps)


def records(shape: Shape, quick: bool, first: int = 0) -> Iterator[Record]:
    """Measure all methods on a scenario.

    Args:
        shape: The scenario.
        quick: One seed and :data:`QUICK_PERIODS` periods. Figures that need longer runs are not judged.
        first: Seed of the first run.
    """
    yield from _of_methods(shape, _methods(shape, quick), quick, first)
    if shape.name == "job1":
        yield from _routed(shape)


def without_rivals(shape: Shape, quick: bool, first: int = 0) -> Iterator[Record]:
    """Measure ours and the method that it is judged by (COLA or the balancer); otherwise like :func:`records`."""
    needed = ("joint", *(("balancer",) if shape.name in OF_BALANCE else ("cola",)))
    yield from _of_methods(shape, needed, quick, first)


def _of_methods(shape: Shape, methods: Sequence[str], quick: bool, first: int) -> Iterator[Record]:
    if quick:
        shape = replace(shape, periods=QUICK_PERIODS.get(shape.name, 15))
    yield from scenario(shape, methods, range(first, first + (1 if quick else SEEDS)), quick)


QUICK_PERIODS = {"job1": 5, "job2": 14, "job3": 25, "job4": 5, "chain20": 42, "pairs_0": 5, "pairs_100": 25}
UNFINISHED = ("job4",)
"""Scenarios that quick runs cut short."""
AS_WRITTEN = ("job2", "chain20")
"""Scenarios that also measure ALBIC without its corrections."""
OF_BALANCE = {"job1": ("balancer", "flux"), "pairs_0": ("balancer",)}
"""Methods that only balance, for scenarios with nothing to collocate."""
QUICK_FOR_ALBIC = ("job1", "job2", "job4")
"""Scenarios on which quick runs measure ALBIC. On the others it takes far longer than all other methods."""


def _shapes() -> Iterator[Shape]:
    yield Shape("chain20", 20, 60, lambda seed: made_up(chained(20, 40), 40, seed), 1.0)
    for share in (0, 25, 50, 75, 100):
        yield _pairs(f"pairs_{share}", share / 100, 40)
    for nodes in (20, 60):
        yield _pairs(f"pairs_50_{nodes}", 0.5, nodes)
    for job in flights.JOBS:
        yield _job(job)


def _pairs(name: str, share: float, nodes: int) -> Shape:
    job = paired(nodes // 2, 40, share)
    return Shape(name, 20, 40, lambda seed: made_up(job, nodes, seed, apart=True), share)


def _job(job: int) -> Shape:
    return Shape(f"job{job}", 13 if job == 1 else 10, flights.PERIODS, lambda seed: _on_flights(job, seed))


@cache
def _traffic(job: int) -> Sequence[PeriodTraffic]:
    return flights.traffic(job)


def _on_flights(job: int, seed: int) -> PlacementPlant:
    """Return the cluster of a flights job: groups spread evenly at random, and the last period repeated at the end."""
    traffic = _traffic(job)
    groups = len(traffic[0].load)
    node = np.empty(groups, dtype=np.intp)
    node[np.random.default_rng([seed, 3]).permutation(groups)] = np.arange(groups) % flights.NODES
    operator = np.arange(groups) // GROUPS
    cluster = Cluster(operator, node, np.ones(flights.NODES), np.ones(groups), move_points=MOVE_POINTS)
    return PlacementPlant(cluster, lambda period: traffic[min(period, len(traffic) - 1)])


SHAPES: Mapping[str, Shape] = {shape.name: shape for shape in _shapes()}
"""The scenarios, by name."""
OF_FLIGHTS = frozenset(f"job{job}" for job in flights.JOBS)
"""Scenarios that need hashed keys."""


def scenario(shape: Shape, methods: Sequence[str], seeds: Sequence[int], quick: bool) -> Iterator[Record]:
    """Run methods on a scenario.

    Args:
        shape: The scenario.
        methods: Names of the methods.
        seeds: One run per seed.
        quick: The run may have been cut short.
    """
    runs: dict[str, list[Series]] = {}
    for method in methods:
        runs[method] = [follow(shape, method, seed) for seed in seeds]
        yield from _figures(shape, method, runs[method])
    if not (quick and shape.name in UNFINISHED):
        yield from _judged(shape, runs)


def _methods(shape: Shape, quick: bool) -> Sequence[str]:
    rivals = ["cola"] if quick and shape.name not in QUICK_FOR_ALBIC else ["albic", "cola"]
    literal = ["albic_literal"] if shape.name in AS_WRITTEN and not quick else []
    return ("joint", *rivals, *literal, *OF_BALANCE.get(shape.name, ()))


FIGURES: dict[str, tuple[str, Callable[[Series], float]]] = {
    "collocation_ratio": ("ratio", lambda run: _end(run, "collocation")),
    "load_distance": ("points", lambda run: _end(run, "distance")),
    "load_index": ("ratio", lambda run: _end(run, "load_index")),
    "migrations_per_period": ("groups", lambda run: float(np.mean([o.moves for o in run.outcomes]))),
    "pause_s": ("s", lambda run: float(sum(o.pause_s for o in run.outcomes))),
    "seconds": ("s", lambda run: float(np.median(run.seconds))),
    "batch_gap": ("ratio", lambda run: float(np.mean(run.gaps[-LAST:]))),
    "load_distance_worst": ("points", lambda run: max(o.distance for o in run.outcomes)),
    "periods_to_full": ("periods", lambda run: _full(run)),
}


def _end(run: Series, name: str) -> float:
    return float(np.mean([getattr(o, name) for o in run.outcomes[-LAST:]]))


def _full(run: Series) -> float:
    """Return the periods until everything that can be collocated is; infinite if that never happens."""
    full = [i + 1 for i, o in enumerate(run.outcomes) if o.collocation >= FULL]
    return float(full[0]) if full else math.inf


def _figures(shape: Shape, method: str, runs: Sequence[Series]) -> Iterator[Record]:
    for figure, (unit, of) in FIGURES.items():
        values = [of(run) for run in runs]
        if np.isfinite(values).all():
            yield median(BENCH, shape.name, method, figure, values, unit)


def _judged(shape: Shape, runs: dict[str, list[Series]]) -> Iterator[Record]:
    """Compare with the targets; the worst seed counts."""
    ours = runs["joint"]
    budget = max(o.spent for run in ours for o in run.outcomes)
    yield _limited(shape, "budget_exceeded", max(0.0, budget - shape.budget), "groups", 0.0, len(ours))
    if shape.name in ("job2", "pairs_100"):
        yield from _on_time(shape, ours)
    if shape.name not in OF_BALANCE:
        theirs = float(np.median([_end(run, "collocation") for run in runs["cola"]]))
        worst = min(_end(run, "collocation") for run in ours) / theirs
        record = _limited(shape, "collocation_vs_cola", worst, "ratio", math.inf, len(ours))
        yield replace(record, target=f">={VS_COLA:g}", holds=worst >= VS_COLA)
        yield _limited(shape, "load_distance_end", max(_end(r, "distance") for r in ours), "points", 2.0, len(ours))
    else:
        plain = float(np.median([_end(run, "distance") for run in runs["balancer"]]))
        over = max(_end(run, "distance") for run in ours) - plain
        yield _limited(shape, "load_distance_vs_balancer", over, "points", 0.1, len(ours))


VS_COLA = 0.98


def _on_time(shape: Shape, ours: Sequence[Series]) -> Iterator[Record]:
    pairs = _pair_count(shape)
    limit = math.ceil(pairs / shape.budget) + 1
    full = max(_full(run) for run in ours)
    yield _limited(shape, "periods_to_full_worst", full if math.isfinite(full) else 9999.0, "periods", limit, len(ours))
    until = max(o.distance for run in ours for o in run.outcomes)
    yield _limited(shape, "load_distance_throughout", until, "points", 7.0, len(ours))
    if math.isfinite(full):
        settled = max(o.distance for run in ours for o in run.outcomes[int(_full(run)) + SETTLING - 1 :])
        yield _limited(shape, "load_distance_settled", settled, "points", 1.0, len(ours))


def _pair_count(shape: Shape) -> int:
    return len(shape.plant(0).traffic.producer)


def _limited(shape: Shape, figure: str, value: float, unit: str, limit: float, n: int) -> Record:
    target, holds = at_most(value, limit)
    return Record(BENCH, shape.name, "joint", figure, value, unit, n=n, target=target, holds=holds)


def _routed(shape: Shape) -> Iterator[Record]:
    """Measure PoTC on job 1: two choices per key, and a merge whose place it cannot choose."""
    plant = shape.plant(0)
    distances, totals = [], []
    for _ in range(shape.periods):
        problem = problem_of(cluster_of(plant, shape.budget))
        routing = route(problem, seed=0)
        distances.append(routing.distance)
        totals.append(float(routing.loads.sum() / problem.loads(problem.node).sum()))
        plant.apply(plant.node)
    for figure, values, unit in (("load_distance", distances, "points"), ("load_index", totals, "ratio")):
        yield Record(BENCH, shape.name, "potc", figure, float(np.mean(values[-LAST:])), unit)


def large_records(quick: bool, first: int = 0) -> Iterator[Record]:
    """Measure the time per period with 1000 nodes, 100,000 groups and 50,000 pairs at a budget of 3 %.

    Args:
        quick: One period instead of five.
        first: Seed of the run.
    """
    nodes = 1000
    job = paired(20, 5 * nodes, 1.0)
    shape = Shape("large", 0.03 * 100 * nodes, 1 if quick else 5, lambda seed: made_up(job, nodes, seed), 1.0)
    run = follow(shape, "joint", first)
    for figure in ("seconds", "collocation_ratio", "load_distance", "migrations_per_period"):
        unit, of = FIGURES[figure]
        yield Record(BENCH, "large", "joint", figure, of(run), unit)

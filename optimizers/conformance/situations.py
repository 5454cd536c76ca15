"""Situations to ask an optimizer in, drawn by Hypothesis: Signals, and the running Deployment.

They cover everything that the quality gate would let pass, missing figures included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from millrace.model.admission import StreamCounts
from millrace.model.arrival import ArrivalBasis
from millrace.model.deployment import Deployment, ExecutorSize
from millrace.model.join import JoinSettings, JoinSignals
from millrace.model.objective import Bounds, Objective
from millrace.model.placement import PartitionLoads
from millrace.model.signals import Edge, Signals
from millrace.optimizers.conformance.builders import (
    APP,
    NOON,
    app_signals,
    capacity,
    dag_signals,
    deployment,
    observed,
    operator,
    signals,
    source,
)

Situation = tuple[Signals, Deployment]
Draw = Callable[[st.SearchStrategy[Any]], Any]

MAX_SLOTS = 8
STEPS = (1, 1, 2, 4)
"""Cores per executor; slots are multiples of it."""
RATIOS = st.none() | st.floats(0, 1)
RATES = st.none() | st.floats(0, 5000)
ROWS = st.none() | st.integers(0, 500_000)
DAGS = {
    "chain": ("lines", "lines>split split>count"),
    "join": ("left right", "left>filter filter>join right>join join>sink"),
    "diamond": ("events", "events>parse parse>left parse>right left>merge right>merge"),
}
"""Sources and edges of some jobs."""


@st.composite
def histories(draw: st.DrawFn) -> dict[int, list[float]]:
    """Draw levels that follow a power law with noise; there may be none at all."""
    unit, exponent = draw(st.floats(5, 500)), draw(st.floats(0.0, 1.0))
    chosen = draw(st.lists(st.integers(1, MAX_SLOTS), max_size=4, unique=True))
    noise = st.floats(0.9, 1.1)
    return {p: [unit * p**exponent * draw(noise) for _ in range(draw(st.integers(1, 3)))] for p in chosen}


@st.composite
def limits(draw: st.DrawFn) -> Bounds:
    """Draw bounds whose step may be more than 1."""
    step = draw(st.sampled_from(STEPS))
    low = draw(st.integers(1, MAX_SLOTS // step))
    return Bounds(low * step, draw(st.integers(low, MAX_SLOTS // step)) * step, step)


@st.composite
def apps(draw: st.DrawFn) -> Situation:
    """Draw an app that is sized as a whole."""
    bounds = draw(limits())
    slots = draw(st.sampled_from(bounds.levels))
    history = draw(histories())
    ran = draw(st.none() | st.integers(1, slots))
    measured = None
    is_fitted = draw(st.booleans())
    if history and is_fitted:
        p = draw(st.sampled_from(sorted(history)))
        measured = capacity(p, history[p][-1] * draw(st.floats(0.95, 1.05)), draw(st.floats(0, 10)))
    app = app_signals(
        slots,
        draw(RATES),
        measured,
        parallelism=ran,
        source_splits=draw(st.booleans()),
        processed_rows_per_s=draw(RATES),
        backlog_rows=draw(ROWS),
        restart_lag_rows=draw(ROWS),
        backpressured_ratio=draw(RATIOS),
        slot_busy_ratio=draw(RATIOS),
        batches=draw(st.integers(0, 9)),
        arrival_basis=draw(st.sampled_from(ArrivalBasis)),
    )
    objective = Objective(draw(st.floats(0.3, 1)), draw(st.floats(1, 60)), draw(st.floats(10, 300)))
    seen = signals(app, observed(history), bounds, objective, settling=draw(st.booleans()))
    return seen, deployment(slots)


@st.composite
def dags(draw: st.DrawFn) -> Situation:
    """Draw an app whose operators have a p each."""
    sources, pairs = draw(st.sampled_from(sorted(DAGS.values())))
    links = [tuple(pair.split(">")) for pair in pairs.split()]
    sized = list(dict.fromkeys(name for link in links for name in link if name not in sources.split()))
    bounds = draw(limits())
    parallelism = {name: draw(st.sampled_from(bounds.levels)) for name in sized}
    history, operators = {name: draw(histories()) for name in sized}, []
    for name in sized:
        known = history[name].get(parallelism[name])
        ability = draw(st.none() | st.floats(1, 5000)) if known is None else known[-1] * draw(st.floats(0.95, 1.05))
        changes = {"busy_ratio": draw(RATIOS), "backpressured_ratio": draw(RATIOS), "output_throughput": draw(RATES)}
        operators.append(operator(name, draw(st.none() | st.just(parallelism[name])), draw(RATES), ability, **changes))
    for name in sources.split():
        operators.append(source(name, draw(RATES), draw(RATES), backpressured_ratio=draw(RATIOS)))
    points = [p for name in sized for p in observed(history[name], operator=f"{APP}/{name}")]
    seen = dag_signals(
        draw(st.permutations(operators)),
        [Edge(producer, consumer, draw(RATES)) for producer, consumer in draw(st.permutations(links))],
        tuple(points),
        bounds=bounds,
        settling=draw(st.booleans()),
        backpressured_ratio=draw(RATIOS),
        slot_busy_ratio=draw(RATIOS),
        backlog_rows=draw(ROWS),
        backlog_growth_rows_per_s=draw(st.none() | st.floats(-5000, 5000)),
    )
    return seen, deployment(seen.apps[0].slots, parallelism)


def healthy_dag() -> Situation:
    """Return a job in which every operator could do with less."""
    parallelism = {"split": 4, "count": 4}
    operators = (source("lines", 10.0), *(operator(name, 4, 10.0, 300.0) for name in parallelism))
    links = (Edge("lines", "split", 10.0), Edge("split", "count", 10.0))
    points = [p for name in parallelism for p in observed({1: 100.0, 4: 300.0}, operator=f"{APP}/{name}")]
    seen = dag_signals(operators, links, tuple(points), slot_busy_ratio=0.03)
    return seen, deployment(seen.apps[0].slots, parallelism)


@st.composite
def partition_loads(draw: st.DrawFn) -> Situation:
    """Draw up to 12 state partitions of two operators on some of up to 4 executors, or none."""
    n, executors = draw(st.integers(0, 12)), draw(st.integers(1, 4))
    seconds = st.floats(0, 100)
    groups = PartitionLoads(
        app=APP,
        since=NOON - timedelta(minutes=1),
        until=NOON,
        batches=draw(st.integers(1, 10)),
        operator=tuple("plane/0" if i < n // 2 else "route/1+2" for i in range(n)),
        partition=tuple(i if i < n // 2 else i - n // 2 for i in range(n)),
        executor=tuple(draw(st.integers(-1, 4)) for _ in range(n)),
        busy_s=tuple(draw(seconds) for _ in range(n)),
        busy_error_s=tuple(draw(seconds) for _ in range(n)),
        rows=tuple(draw(st.floats(0, 1e6)) for _ in range(n)),
        state_bytes=tuple(draw(st.none() | st.integers(0, 10**9)) for _ in range(n)),
    )
    placed = draw(st.sampled_from([{}, {"plane/0": tuple(draw(st.integers(-1, 4)) for _ in range(n))}]))
    seen, current = signals(app_signals(executors, 100.0, None)), deployment(executors)
    app = replace(current.apps[APP], executor=draw(st.sampled_from([ExecutorSize(1, 1024), None])), placement=placed)
    seen = replace(seen, partition_loads=draw(st.sampled_from([groups, groups, None])))
    return seen, replace(current, apps={APP: app})


@st.composite
def streams(draw: st.DrawFn) -> Situation:
    """Draw some hours of up to 4 input streams, or nothing new."""
    names = sorted(draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True)))
    hours, first = draw(st.integers(1, 8)), draw(st.integers(0, 3))
    cells = [(t, i) for t in range(hours) for i in range(len(names)) if draw(st.booleans())]
    midnight = NOON - timedelta(hours=12)
    counts = StreamCounts(
        version=draw(st.integers(1, 3)),
        since=midnight + timedelta(hours=first),
        until=midnight + timedelta(hours=first + hours),
        period_s=3600,
        stream=tuple(names),
        period=tuple(t for t, _ in cells),
        index=tuple(i for _, i in cells),
        rows=tuple(draw(st.none() | st.integers(1, 3000)) for _ in cells),
    )
    seen, current = signals(app_signals(2, 100.0, None)), deployment(2)
    return replace(seen, streams=draw(st.sampled_from([counts, counts, None]))), current


@st.composite
def joins(draw: st.DrawFn) -> Situation:
    """Draw a stream join with its measurements, if any."""
    bounds, workers = draw(limits()), draw(st.integers(1, 8))
    slots = draw(st.sampled_from(bounds.levels))
    counts = st.none() | st.integers(0, 20_000)
    until = NOON + timedelta(seconds=10 * draw(st.integers(0, 5)))
    measured = JoinSignals(
        workers=workers,
        block=draw(st.integers(1, 2000)),
        shed=draw(st.floats(0, 1)),
        capacity=draw(st.integers(2, 2000)),
        window_s=60.0,
        window_tuples=tuple(draw(st.lists(st.none() | st.integers(0, 1200), max_size=10))),
        offered=draw(counts),
        offered_before=draw(counts),
        until=until,
        period_s=draw(st.floats(1, 60)),
        partitions=draw(st.none() | st.integers(workers, 10)),
    )
    seen = signals(app_signals(slots, 1.0, None), bounds=bounds, settling=draw(st.booleans()), until=until)
    seen = replace(seen, join=draw(st.sampled_from([measured, measured, None])))
    return seen, replace(deployment(slots), join=JoinSettings(workers, measured.block, measured.shed))


def spoil(draw: Draw, value: Any, junk: Any) -> Any:
    """Return a JSON value with something in it replaced by junk."""
    if not value or not isinstance(value, dict | list) or draw(st.integers(0, 3)) == 0:
        return junk
    if isinstance(value, list):
        at = draw(st.integers(0, len(value) - 1))
        return [spoil(draw, v, junk) if i == at else v for i, v in enumerate(value)]
    key = draw(st.sampled_from(sorted(value)))
    return {k: spoil(draw, v, junk) if k == key else v for k, v in value.items()}


def spoil_figure(draw: Draw, measured: Any) -> Any:
    """Return a contract with one of its figures missing, if it is optional, or invalid."""
    names = [f.name for f in fields(measured) if _figures_of(getattr(measured, f.name))]
    if not names:
        return measured
    name = draw(st.sampled_from(names))
    value = getattr(measured, name)
    if is_dataclass(value):
        return replace(measured, **{name: spoil_figure(draw, value)})
    optional = "None" in next(str(f.type) for f in fields(measured) if f.name == name)
    wrong = draw(st.sampled_from([float("nan"), float("inf"), -1.0, *([None] if optional else [])]))
    if not isinstance(value, tuple):
        return replace(measured, **{name: wrong})
    at = draw(st.integers(0, len(value) - 1))
    item = spoil_figure(draw, value[at]) if is_dataclass(value[at]) else wrong
    return replace(measured, **{name: (*value[:at], item, *value[at + 1 :])})


def _figures_of(value: Any) -> bool:
    """Return whether a field holds figures that can be spoilt."""
    if isinstance(value, tuple):
        return bool(value) and _figures_of(value[0])
    return isinstance(value, float) or (
        is_dataclass(value) and any(_figures_of(getattr(value, f.name)) for f in fields(value))
    )

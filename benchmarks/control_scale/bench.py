"""What an evaluation and a reconciler pass cost as pipelines and days grow in number.

The lakes come from :mod:`benchmarks.control_scale.lakes`; a scenario's name states its pipelines and days. One process
evaluates the pipelines in turn, keeps what it read of the lake like Millrace's evaluators, and finds what all drivers
have written since. Imports and Airflow's own work are not counted; the work of Great Expectations is. CPU is that of
the process, all threads together.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.control_scale.lakes import build, later_commits
from benchmarks.control_scale.live_writers import COMMITS, EVALUATION_S, TUNER, names, spec, write
from benchmarks.record import Record, at_most, median
from benchmarks.targets import Target, judged
from millrace.control.guard_context import read_guard_context
from millrace.control.loop import ControlLoop
from millrace.control.quality import DataDocs, QualityGate
from millrace.control.spark_plant import SparkPlant
from millrace.drivers.reconciler import Reconciler
from millrace.environment.spark_env import submit_options
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import new_decision_id
from millrace.lake.storage import table_storage
from millrace.lake.store import Lake
from millrace.local.stack.progress import step
from millrace.model.decision import Reconfiguration
from millrace.model.signals import Observation
from millrace.model.spec import PipelineSpec
from millrace.reporting.tracker import MlflowTracker
from millrace.wiring import MOST_FILES

BENCH = "control_scale"
LAKES = tuple((pipelines, days) for pipelines in (1, 10, 50) for days in (1, 7, 30))
SCENARIOS = tuple(f"p{pipelines}_d{days}" for pipelines, days in LAKES)
QUICK_LAKES = ((1, 1), (5, 1), (5, 7))
REPETITIONS, QUICK_REPETITIONS = 20, 7
LIMIT_S, GROWTH_LIMIT = 0.3, 1.2
"""CPU of an evaluation with fifty pipelines after a week; and CPU after a month divided by CPU after a day."""
CPU, WALL, RECONCILE = "evaluation_cpu_s", "evaluation_s", "reconcile_s"
TARGETS = (Target("p50_d7", "millrace", CPU, LIMIT_S),)


@dataclass(frozen=True)
class Cost:
    """What an evaluation cost: CPU seconds by part, and how long it took."""

    parts: Mapping[str, float]
    wall_s: float


@dataclass(frozen=True)
class NoReconciler:
    """Start and stop nothing: only reading is measured."""

    def reconcile(self) -> tuple[Reconfiguration, ...]:
        """Do nothing."""
        return ()


def run(quick: bool, scenarios: Collection[str] = SCENARIOS) -> list[Record]:
    """Measure evaluations over lakes of growing size.

    Args:
        quick: Few repetitions, and small lakes if all scenarios are measured.
        scenarios: Scenarios to measure; growth compares the days among them.
    """
    logging.disable(logging.INFO)  # Great Expectations logs every context
    records: list[Record] = []
    wanted = [lake for lake, name in zip(LAKES, SCENARIOS, strict=True) if name in scenarios]
    for pipelines, days in QUICK_LAKES if quick and len(wanted) == len(LAKES) else wanted:
        scenario = f"p{pipelines}_d{days}"
        with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder, step(scenario):
            lake, now = Path(folder) / "lake", datetime.now(UTC)
            build(lake, pipelines, days, now)
            records += _stored(lake, scenario)
            records += _measured(lake, scenario, pipelines, now, QUICK_REPETITIONS if quick else REPETITIONS)
    return judged([*records, *growth(records)], TARGETS)


def growth(records: Sequence[Record]) -> Iterator[Record]:
    """Yield the growth of an evaluation's CPU from the first to the last measured day, by number of pipelines."""
    found: dict[str, dict[int, float]] = {}
    for record in records:
        if record.figure == CPU:
            pipelines, _, days = record.scenario.partition("_d")
            found.setdefault(pipelines, {})[int(days)] = record.value
    for pipelines, costs in found.items():
        if len(costs) > 1:
            ratio = costs[max(costs)] / costs[min(costs)]
            target, holds = at_most(ratio, GROWTH_LIMIT)
            yield Record(BENCH, pipelines, "millrace", "growth", round(ratio, 3), "ratio", target=target, holds=holds)


def _stored(lake: Path, scenario: str) -> Iterator[Record]:
    """Yield what the lake contains; the tables' retention limits it."""
    held = [table_storage(Lake(lake), table) for table in COMMITS]
    yield Record(BENCH, scenario, "millrace", "lake, rows", sum(table.rows for table in held), "rows")
    yield Record(BENCH, scenario, "millrace", "lake, files", sum(table.files for table in held), "files")
    size_mb = sum(table.disk_bytes for table in held) / 1e6
    yield Record(BENCH, scenario, "millrace", "lake, size", round(size_mb, 1), "MB")


def _measured(root: Path, scenario: str, pipelines: int, now: datetime, repetitions: int) -> Iterator[Record]:
    """Evaluate the pipelines in turn in one process that keeps the lake, while their drivers write on."""
    lake, every = Lake(root, MOST_FILES), names(pipelines)
    moments = [now + timedelta(seconds=n * EVALUATION_S / pipelines) for n in range(pipelines + repetitions)]
    writers = {table: later_commits(table, every, now, moments[-1]) for table in COMMITS}
    costs = list[Cost]()
    for name, before, at in zip(cycle(every), [now, *moments], moments, strict=False):
        for table, commits in writers.items():
            write(lake, table, [commit for commit in commits if before <= commit.time < at], lake.version(table))
        costs.append(_evaluation(lake, root.parent / "gx", name, at))
    steady = costs[pipelines:]  # until then, each pipeline is new to the process
    for part in steady[0].parts:
        yield _record(scenario, part, [cost.parts[part] for cost in steady], "s CPU")
    cpu, wall = [sum(cost.parts.values()) for cost in steady], [cost.wall_s for cost in steady]
    for figure, values, unit in ((CPU, cpu, "s CPU"), (WALL, wall, "s")):
        yield replace(_record(scenario, figure, values, unit), value=round(float(np.quantile(values, 0.95)), 4))
    yield _record(scenario, RECONCILE, [_reconciled(root) for _ in range(repetitions)], "s")


def _evaluation(lake: Lake, docs: Path, name: str, at: datetime) -> Cost:
    """Return the cost of a whole evaluation, including everything that it reads and records."""
    asked, tables, began, parts = spec(name), ControlTables(lake), time.perf_counter(), dict[str, float]()
    gate = QualityGate(asked, tables, DataDocs(docs / name))
    plant = SparkPlant(asked, tables, NoReconciler(), lambda: at)
    loop = ControlLoop(asked, tables, gate, plant, {}, MlflowTracker(None), lambda: at)

    def timed(part: str, work: Callable[[], Any]) -> Any:
        cpu = time.process_time()
        result = work()
        parts[part] = time.process_time() - cpu
        return result

    observation = timed("observe: gate, telemetry, observations", loop.observe)
    signals = observation.signals
    if signals is None or signals.apps[0].capacity is None or len(signals.observations) < 20:
        raise RuntimeError(f"the lake gives no signals: {observation}")
    if not timed("memory", lambda: tables.memories.latest(name, TUNER)):
        raise RuntimeError("the lake has no memory")
    timed("decisions, deployments, reconfigurations", lambda: _read_context(asked, tables, at))
    timed("records", lambda: _append(tables, name, at))
    return Cost(parts, time.perf_counter() - began)


def _read_context(asked: PipelineSpec, tables: ControlTables, now: datetime) -> None:
    tables.decisions.recorded(new_decision_id(now, asked.name))
    in_use = tables.deployments.slots_in_use()
    current = in_use.latest(asked.name)
    if current is None:
        raise RuntimeError("the lake has no Deployment")
    read_guard_context(asked, tables, current, now, in_use.others(asked.name))


def _append(tables: ControlTables, name: str, at: datetime) -> None:
    last = tables.decisions.last(name)
    if last is None:
        raise RuntimeError("the lake has no Decision")
    decision_id = new_decision_id(at, name)
    point = Observation(name, 2, 950.0, 12.0, 30, at)
    tables.observations.add(name, [point], "evaluations", int(at.timestamp()))
    tables.memories.record(name, TUNER, decision_id, at, {"levels": [1.0] * 40})
    tables.decisions.record(replace(last, decision_id=decision_id, time=at))


def _reconciled(lake: Path) -> float:
    """Return how long the reconciler takes to check all pipelines against their desired state."""
    options, began = submit_options(), time.perf_counter()
    tables, run, logs = ControlTables(Lake(lake)), lake.parent / "run", lake.parent / "logs"
    for deployment in tables.deployments.all_latest():
        Reconciler(spec(deployment.pipeline), tables, run, logs, options).problem()
    return time.perf_counter() - began


def _record(scenario: str, figure: str, values: Sequence[float], unit: str) -> Record:
    found = median(BENCH, scenario, "millrace", figure, values, unit)
    return replace(found, value=round(found.value, 4))

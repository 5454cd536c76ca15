"""What an evaluation and a reconciler pass cost as pipelines and days grow in number.

The lakes come from :mod:`benchmarks.control_scale.lakes`; a scenario's name states its pipelines and days. Each
evaluation opens its own handles, like an Airflow task, but all run in one process. Imports and Airflow's own work are
not counted; the work of Great Expectations is. CPU is that of the process, all threads together.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.control_scale.lakes import build
from benchmarks.control_scale.live_writers import COMMITS, TUNER, names, spec
from benchmarks.record import Record, at_most, median
from benchmarks.targets import Target, judged
from millrace.control.collect import collect
from millrace.control.guard_context import read_guard_context
from millrace.control.loop import ControlLoop
from millrace.control.quality import DataDocs, QualityGate
from millrace.control.spark_plant import SparkPlant
from millrace.drivers.reconciler import Reconciler
from millrace.environment.spark_env import submit_options
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import DecisionStore, new_decision_id
from millrace.lake.memories import MemoryStore
from millrace.lake.observations import ObservationStore
from millrace.lake.storage import table_storage
from millrace.lake.store import Lake
from millrace.local.stack.progress import step
from millrace.model.decision import Reconfiguration
from millrace.model.signals import Observation
from millrace.model.spec import PipelineSpec
from millrace.reporting.tracker import MlflowTracker

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
            records += _measured(lake, scenario, now, QUICK_REPETITIONS if quick else REPETITIONS)
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


def _measured(lake: Path, scenario: str, now: datetime, repetitions: int) -> Iterator[Record]:
    _evaluated(lake, now)  # imports, and the gate's first pages
    looks, costs = list[Mapping[str, float]](), list[tuple[float, float]]()
    for number in range(repetitions):
        looks.append(_evaluated(lake, now))
        costs.append(_evaluation(lake, now + timedelta(seconds=number)))
    for figure in looks[0]:
        yield _record(scenario, figure, [look[figure] for look in looks], "s CPU")
    cpu, wall = zip(*costs, strict=True)
    for figure, values, unit in ((CPU, cpu, "s CPU"), (WALL, wall, "s")):
        yield replace(_record(scenario, figure, values, unit), value=round(float(np.quantile(values, 0.95)), 4))
    yield _record(scenario, RECONCILE, [_reconciled(lake) for _ in range(repetitions)], "s")


def _evaluation(lake: Path, at: datetime) -> tuple[float, float]:
    """Return CPU and wall time of a whole evaluation, including everything that it reads and records."""
    cpu, wall = time.process_time(), time.perf_counter()
    _loop(lake, at).observe()
    tables, asked = ControlTables(Lake(lake)), spec(names(1)[0])
    MemoryStore(tables.lake).latest(asked.name, TUNER)
    _decision_context(asked, tables, at)
    _append(tables.lake, at)
    return time.process_time() - cpu, time.perf_counter() - wall


def _reconciled(lake: Path) -> float:
    """Return how long the reconciler takes to check all pipelines against their desired state."""
    options, began = submit_options(), time.perf_counter()
    tables, run, logs = ControlTables(Lake(lake)), lake.parent / "run", lake.parent / "logs"
    for deployment in tables.deployments.all_latest():
        Reconciler(spec(deployment.pipeline), tables, run, logs, options).problem()
    return time.perf_counter() - began


def _evaluated(root: Path, now: datetime) -> Mapping[str, float]:
    """Read everything that one evaluation reads, and return the CPU of each part."""
    name = names(1)[0]
    asked, lake = spec(name), Lake(root)  # observe
    cursor, cursor_s = _cpu(lambda: DecisionStore(lake).cursor(name))
    gate, gate_s = _cpu(
        lambda: QualityGate(asked, ControlTables(lake), DataDocs(root.parent / "gx" / name)).check(cursor, now)
    )
    if not gate.passed:
        raise RuntimeError(f"the gate refuses the lake: {gate.sentence}")
    signals, signals_s = _cpu(lambda: collect(asked, ControlTables(lake), cursor, now))
    if signals.apps[0].capacity is None or len(signals.observations) < 20:
        raise RuntimeError("the lake gives no signals")
    lake = Lake(root)  # decide
    memory, memory_s = _cpu(lambda: MemoryStore(lake).latest(name, TUNER))
    if not memory:
        raise RuntimeError("the lake has no memory")
    return {
        "quality gate": gate_s,
        "cursor": cursor_s,
        "signals: telemetry and observations": signals_s,
        "memory": memory_s,
        "decisions, deployments, reconfigurations": _cpu(lambda: _decision_context(asked, ControlTables(lake), now))[1],
    }


def _decision_context(asked: PipelineSpec, tables: ControlTables, now: datetime) -> None:
    tables.decisions.recorded(new_decision_id(now, asked.name))
    in_use = tables.deployments.slots_in_use()
    current = in_use.latest(asked.name)
    if current is None:
        raise RuntimeError("the lake has no Deployment")
    read_guard_context(asked, tables, current, now, in_use.others(asked.name))


def _loop(root: Path, now: datetime) -> ControlLoop:
    asked, tables = spec(names(1)[0]), ControlTables(Lake(root))
    gate = QualityGate(asked, tables, DataDocs(root.parent / "gx" / asked.name))
    plant = SparkPlant(asked, tables, NoReconciler(), lambda: now)
    return ControlLoop(asked, tables, gate, plant, {}, MlflowTracker(None), lambda: now)


def _append(lake: Lake, at: datetime) -> None:
    name = names(1)[0]
    last = DecisionStore(lake).last(name)
    if last is None:
        raise RuntimeError("the lake has no Decision")
    decision_id = new_decision_id(at, name)
    point = Observation(name, 2, 950.0, 12.0, 30, at)
    ObservationStore(lake).add(name, [point], "evaluations", int(at.timestamp()))
    MemoryStore(lake).record(name, TUNER, decision_id, at, {"levels": [1.0] * 40})
    DecisionStore(lake).record(replace(last, decision_id=decision_id, time=at))


def _cpu(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    return work(), time.process_time() - began


def _record(scenario: str, figure: str, values: Sequence[float], unit: str) -> Record:
    found = median(BENCH, scenario, "millrace", figure, values, unit)
    return replace(found, value=round(found.value, 4))

"""What one evaluation costs as the lake grows: CPU of all that it reads, before any compaction.

The lakes are those of live writers (:mod:`benchmarks.control_lake`): one pipeline evaluated every minute for a day is a
pipeline-day; five are five pipelines for a day. Each evaluation has handles of its own, as every Airflow task has, in
one process: what importing costs is not counted, Great Expectations' own work is. The CPU is that of the process, all
threads together.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.control_lake import TUNER, build, names, spec
from benchmarks.record import Record, median
from benchmarks.targets import Target, judged
from include.control.collect import collect
from include.control.guard_context import read_guard_context
from include.control.loop import ControlLoop
from include.control.quality import DataDocs, QualityGate
from include.control.spark_plant import SparkPlant
from include.lake.control_tables import ControlTables
from include.lake.decisions import DecisionStore, new_decision_id
from include.lake.maintenance import maintain
from include.lake.memories import MemoryStore
from include.lake.observations import ObservationStore
from include.lake.schemas import TABLES
from include.lake.store import Lake
from include.model.decision import Reconfiguration
from include.model.signals import Observation
from include.model.spec import PipelineSpec
from include.reporting.tracker import MlflowTracker

PIPELINES, QUICK_PIPELINES = (1, 5, 20), (1, 5)
REPETITIONS, QUICK_REPETITIONS = 20, 7
LIMIT_S = 0.3
SUM = "all reads of an evaluation"
TARGETS = (Target("5 pipeline-days", "millrace", SUM, LIMIT_S),)


@dataclass(frozen=True)
class NoReconciler:
    """Starts and stops nothing: here is only measured what is read."""

    def reconcile(self) -> tuple[Reconfiguration, ...]:
        """Do nothing."""
        return ()


def run(quick: bool) -> list[Record]:
    """Measure evaluations over lakes of growing age.

    Args:
        quick: Leave out the largest lake and what compaction changes.
    """
    logging.disable(logging.INFO)  # Great Expectations tells of each context
    records: list[Record] = []
    repetitions = QUICK_REPETITIONS if quick else REPETITIONS
    for pipelines in QUICK_PIPELINES if quick else PIPELINES:
        scenario = f"{pipelines} pipeline-day{'s' if pipelines > 1 else ''}"
        with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
            lake, now = Path(folder) / "lake", datetime.now(UTC)
            began = time.perf_counter()
            build(lake, pipelines, 1.0, now)
            files = sum(1 for _ in lake.rglob("*.parquet"))
            records.append(_record(scenario, "data files", [float(files)], "files"))
            records.append(_record(scenario, "writing the lake", [time.perf_counter() - began], "s"))
            records += _evaluations(lake, scenario, now, repetitions)
            if not quick and pipelines == QUICK_PIPELINES[-1]:
                for table in TABLES:
                    if Lake(lake).exists(table):
                        maintain(Lake(lake), table, now.date() + timedelta(days=1))
                records += _evaluations(lake, f"{scenario}, compacted", now, repetitions)
    return judged(records, TARGETS)


def _evaluations(lake: Path, scenario: str, now: datetime, repetitions: int) -> list[Record]:
    _evaluated(lake, now)  # imports, and the gate's first pages
    runs = [_evaluated(lake, now) for _ in range(repetitions)]
    figures = {figure: [run[figure] for run in runs] for figure in runs[0]}
    figures[SUM] = [sum(run.values()) for run in runs]
    records = [_record(scenario, figure, values, "s CPU") for figure, values in figures.items()]
    records.append(_record(scenario, f"{SUM}, p95", [float(np.quantile(figures[SUM], 0.95))], "s CPU"))
    observed = [_cpu(lambda: _loop(lake, now).observe())[1] for _ in range(repetitions)]
    records.append(_record(scenario, "observe, whole", observed, "s CPU"))
    appended = [_cpu(lambda n=n: _append(lake, now + timedelta(seconds=n)))[1] for n in range(repetitions)]
    return [*records, _record(scenario, "recording a Decision, memory and observation", appended, "s CPU")]


def _evaluated(root: Path, now: datetime) -> Mapping[str, float]:
    """Read all that one evaluation reads, and return the CPU of each part."""
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
    tables.decisions.get(new_decision_id(now, asked.name))
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


def _append(root: Path, at: datetime) -> None:
    lake, name = Lake(root), names(1)[0]
    last = DecisionStore(lake).last(name)
    if last is None:
        raise RuntimeError("the lake has no Decision")
    decision_id = new_decision_id(at, name)
    point = Observation(name, 2, 950.0, 12.0, 30, at)
    ObservationStore(lake).add(name, [point], "looks", int(at.timestamp()))
    MemoryStore(lake).record(name, TUNER, decision_id, at, {"levels": [1.0] * 40})
    DecisionStore(lake).record(replace(last, decision_id=decision_id, time=at))


def _cpu(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    return work(), time.process_time() - began


def _record(scenario: str, figure: str, values: Sequence[float], unit: str) -> Record:
    found = median("control_scale", scenario, "millrace", figure, values, unit)
    return replace(found, value=round(found.value, 4))

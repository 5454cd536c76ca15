"""Whether memory stays flat: a day of evaluations in one process, and an hour of the whole stack.

``day``: 24 hours of one evaluation per minute through the control loop, the agent, compaction and maintenance, with an
injected clock (about 20 minutes; six hours with ``--quick``). ``hour``: a stack with a running pipeline, sixty minutes
of wall time (ten with ``--quick``); each service, the driver and the mean executor are measured separately.
"""

from __future__ import annotations

import gc
import logging
import signal
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import psutil

from benchmarks.elastic.cluster import EXECUTOR
from benchmarks.faults.stack import PIPELINE, Stack
from benchmarks.faults.stack_campaign import running_stack, up_and_down
from benchmarks.record import Record, at_most
from benchmarks.soak.app import EndlessApp
from millrace.control.loop import ControlLoop
from millrace.control.quality import DataDocs, QualityGate
from millrace.control.spark_plant import SparkPlant
from millrace.lake.control_tables import ControlTables
from millrace.lake.maintenance import compact, maintain
from millrace.lake.schemas import TABLES
from millrace.lake.store import Lake
from millrace.local.stack import lifecycle, service_processes
from millrace.local.stack.progress import say, step
from millrace.model.errors import Conflict, NotReady, Settled
from millrace.model.spec import PipelineSpec
from millrace.optimizers.registry import all_of
from millrace.reporting.tracker import MlflowTracker
from millrace.run_folder import discovery

BENCH, DAY, HOUR = "soak", "day", "hour"
SCENARIOS = (DAY, HOUR)
LIMIT = 1.1
"""Highest ratio of the final memory to that of the warm process."""
WARM_HOURS, WARM_MINUTES, QUICK_WARM_MINUTES = 2, 15, 5
"""A JVM takes about a quarter of an hour until it first collects its whole heap."""
AT_ONCE_H, AT_ONCE_MIN = 1, 10
"""Samples per median: a child process that cleans up for a moment is not growth."""
DAY_H, QUICK_DAY_H = 24, 6
HOUR_MIN, QUICK_HOUR_MIN = 60, 10
MAINTAINED_AT_H = 3
NAME = "soak"
MB = 2**20


def run(quick: bool, scenarios: Collection[str] = SCENARIOS) -> list[Record]:
    """Measure one or both scenarios.

    Args:
        quick: Six hours of evaluations, and ten minutes of the stack.
        scenarios: Scenarios to measure.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a clean shutdown, as with Ctrl-C
    logging.disable(logging.INFO)  # Great Expectations logs every context
    records: list[Record] = []
    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
        root = Path(folder).resolve()
        if DAY in scenarios:
            with step(DAY):
                day = evaluated_day(root / DAY, QUICK_DAY_H if quick else DAY_H)
            records += _records(DAY, {"evaluations": day}, WARM_HOURS, AT_ONCE_H)
        if HOUR in scenarios:
            with step(HOUR):
                minutes = watched_hour(root / HOUR, QUICK_HOUR_MIN if quick else HOUR_MIN)
            records += _records(HOUR, minutes, QUICK_WARM_MINUTES if quick else WARM_MINUTES, AT_ONCE_MIN)
    return records


def warm_and_end(sizes: Sequence[float], warm: int, at_once: int) -> tuple[float, float]:
    """Return the size of a warm process, and the largest of the last three medians.

    Args:
        sizes: Sizes, sampled at equal intervals; more than ``warm``.
        warm: Samples before a process is warm.
        at_once: Samples per median, >= 1.
    """
    ends = range(len(sizes) - 2, len(sizes) + 1)
    return median(sizes[warm : warm + at_once]), max(median(sizes[max(0, end - at_once) : end]) for end in ends)


@dataclass
class SoakedLoop:
    """Evaluations of an endless app.

    Attributes:
        root: Folder for lake and documents.
        spec: The pipeline.
        app: The app.
    """

    root: Path
    spec: PipelineSpec
    app: EndlessApp

    def evaluate(self) -> None:
        """Observe, decide and apply with separate handles, like the DAG's tasks."""
        tables = ControlTables(Lake(self.root / "lake"))
        gate = QualityGate(self.spec, tables, DataDocs(self.root / "gx"))
        plant = SparkPlant(self.spec, tables, self.app, lambda: self.app.now)
        optimizers, tracker = all_of(self.spec), MlflowTracker(None)
        loop = ControlLoop(self.spec, tables, gate, plant, optimizers, tracker, lambda: self.app.now)
        with suppress(NotReady, Settled, Conflict):
            decision = loop.decide(loop.observe())
            if (due := loop.commit(decision)) is not None:
                loop.apply(due)

    def upkeep(self) -> None:
        """Compact the tables; once per day, run maintenance instead."""
        lake, today = Lake(self.root / "lake"), self.app.now.date()
        for table in (table for table in TABLES if lake.exists(table)):
            if self.app.now.hour == MAINTAINED_AT_H:
                maintain(lake, table, today, keep_days=TABLES[table].keep_days)
            else:
                compact(lake, table, today)


def evaluated_day(root: Path, hours: int) -> list[float]:
    """Return this process's memory after each hour of evaluations, MB.

    Args:
        root: A folder, which is created.
        hours: Hours of the injected clock, from midnight on.
    """
    told = {"name": NAME, "script": "app.py", "mode": "auto", "submit": {"master": "embedded"}, "max_parallelism": 8}
    spec = PipelineSpec.model_validate({**told, "slots": {"min": 1, "max": 8, "start": 2}, "period_s": 60})
    tables = ControlTables(Lake(root / "lake"))
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    soaked, sizes = SoakedLoop(root, spec, EndlessApp(spec, tables, midnight)), list[float]()
    process = psutil.Process()
    while soaked.app.now < midnight + timedelta(hours=hours):
        for _ in range(60):
            soaked.app.run_minute()
            soaked.evaluate()
        soaked.upkeep()
        gc.collect()
        sizes.append(process.memory_info().rss / MB)
    versions = tables.deployments.latest(NAME)
    say(f"    {hours} h, {versions.version if versions else 0} versions, {sizes[0]:.0f} -> {sizes[-1]:.0f} MB")
    return sizes


def watched_hour(root: Path, minutes: int) -> dict[str, list[float]]:
    """Return the memory of each service, the driver and its executors after each minute, MB; shared pages count once.

    Args:
        root: A folder, which is created.
        minutes: Minutes of wall time.
    """
    found: dict[str, list[float]] = {}
    root.mkdir()
    with running_stack(root / "disk", root / "flights") as (stack, feed), feed.at(up_and_down):
        for _ in range(minutes):
            time.sleep(60)
            with suppress(psutil.NoSuchProcess):  # an executor that is just ending
                for name, size in _sizes(stack):
                    found.setdefault(name, []).append(size)
    return found


def _sizes(stack: Stack) -> Iterator[tuple[str, float]]:
    record = lifecycle.status(stack.home)
    services = {} if record is None else record.services
    for name, service in services.items():
        if service.process is not None and service.state == "healthy":
            members = service_processes.members(service.process, stack.home.root)
            executors = [process for process in members if _is_executor(process)]
            theirs = {child.pid for executor in executors for child in (executor, *executor.children(recursive=True))}
            yield name, _pss_mb([process for process in members if process.pid not in theirs])
            if executors:
                yield "executor", _pss_mb([psutil.Process(pid) for pid in theirs]) / len(executors)
    for driver in discovery.find(stack.env.run_dir, PIPELINE)[:1]:
        yield "driver", _pss_mb([found for process in driver.processes if (found := process.process()) is not None])


def _is_executor(process: psutil.Process) -> bool:
    return process.name() == "java" and any(EXECUTOR in word for word in process.cmdline())


def _pss_mb(processes: Sequence[psutil.Process]) -> float:
    total = 0
    for process in processes:
        with suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total / MB


def _records(scenario: str, sizes: dict[str, list[float]], warm: int, at_once: int) -> Iterator[Record]:
    for name, those in sizes.items():
        if len(those) <= warm:
            continue
        begin, end = warm_and_end(those, warm, at_once)
        yield Record(BENCH, scenario, name, "rss_warm_mb", begin, "MB", n=len(those))
        yield Record(BENCH, scenario, name, "rss_end_mb", end, "MB", n=len(those))
        target, holds = at_most(end / begin, LIMIT)
        yield Record(BENCH, scenario, name, "rss_ratio", end / begin, "ratio", n=len(those), target=target, holds=holds)

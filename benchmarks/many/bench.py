"""What 1, 10 and 50 pipelines cost with Airflow included, and how soon telemetry is decided on.

The whole local stack runs in a temporary home. One process writes the telemetry of all pipelines as attached drivers
write it, and follows their Deployments, so nothing has to be started. ``bad`` adds pipelines that fail, hang or have a
broken spec to ten others, and measures the others before and after. A scenario takes less than twenty minutes.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import psutil

from benchmarks.many.evaluations import changed_slots, histories
from benchmarks.many.faulty import FAULTY, spoil
from benchmarks.many.figures import ANSWER, BENCH, CORES, METHOD, Window, cores, latency_records, records
from benchmarks.many.load import CYCLE_S
from benchmarks.many.world import World, names, running_world
from benchmarks.record import Record
from benchmarks.targets import Target, judged
from millrace.local.stack.airflow_api import AirflowApi
from millrace.local.stack.progress import say, step

COUNTS = {"p1": 1, "p10": 10, "p50": 50}
BAD = "bad"
SCENARIOS = (*COUNTS, BAD)
QUICK_SCENARIOS = ("p10",)
SETTLE_S, IDLE_S, QUICK_IDLE_S = 45.0, 120.0, 60.0
"""The idle stack is measured for whole minutes, because some of its work comes once per minute."""
CYCLES, QUICK_CYCLES, BAD_CYCLES = 3, 1, 2
"""Cycles of the drivers that are measured, each of about three minutes."""
TAIL_S = 30.0
"""Time after the measurement in which Decisions on its commits are still awaited, seconds."""
LATER = "later than without bad pipelines, p95"
TARGETS = (
    Target("p50", METHOD, CORES, 0.6),
    Target("p50", METHOD, ANSWER.format(95), 15.0),
    Target(BAD, METHOD, LATER, 5.0),
)


def run(quick: bool, scenarios: Collection[str] = SCENARIOS) -> list[Record]:
    """Measure stacks with pipelines.

    Args:
        quick: Three minutes instead of nine; if all scenarios are measured, only ``p10``.
        scenarios: Scenarios to measure.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a clean shutdown, as with Ctrl-C
    found: list[Record] = []
    for scenario in QUICK_SCENARIOS if quick and set(scenarios) == set(SCENARIOS) else SCENARIOS:
        if scenario in scenarios:
            with step(scenario), running_world() as world:
                found += _bad(world, quick) if scenario == BAD else _many(world, scenario, quick)
    return judged(found, TARGETS)


def _many(world: World, scenario: str, quick: bool) -> list[Record]:
    pipelines, idle_cores = names(COUNTS[scenario]), _idle_cores(world, QUICK_IDLE_S if quick else IDLE_S)
    _start(world, pipelines)
    return list(records(scenario, _measured(world, pipelines, QUICK_CYCLES if quick else CYCLES), idle_cores))


def _bad(world: World, quick: bool) -> list[Record]:
    pipelines = names(COUNTS["p10"])
    _start(world, [*pipelines, *FAULTY])
    before = _measured(world, pipelines, 1)
    spoil(world.home.lake, world.specs)
    after = _measured(world, pipelines, QUICK_CYCLES if quick else BAD_CYCLES)
    told = {"before": before, BAD: after}
    latencies = {name: list(latency_records(name, window)) for name, window in told.items()}
    p95 = {name: next(r.value for r in those if r.figure == ANSWER.format(95)) for name, those in latencies.items()}
    later = Record(BENCH, BAD, METHOD, LATER, round(p95[BAD] - p95["before"], 3), "s")
    failed = Record(BENCH, BAD, METHOD, "failed task instances", len(after.failed), "1")
    return [*latencies[BAD], later, failed]


def _idle_cores(world: World, seconds: float) -> float:
    """Return the cores of the stack before it has pipelines."""
    time.sleep(SETTLE_S)
    meter, began_s = world.meter(), time.monotonic()
    with meter.running():
        time.sleep(seconds)
    return cores(meter.used_s, time.monotonic() - began_s)


def _start(world: World, pipelines: Sequence[str]) -> None:
    world.add(pipelines)
    decided = world.wait_for_decisions(pipelines)
    say(f"    {decided} of {len(pipelines)} pipelines have a Decision")
    world.begin_cycles()


def _measured(world: World, pipelines: Sequence[str], cycles: int) -> Window:
    """Measure a running stack for some cycles of its drivers, from the next one on."""
    world.wait_for_cycle()
    meter, busy_s, begin, stored_mb = world.meter(), _busy_s(), time.time(), world.stored_mb()
    with meter.running():
        time.sleep(cycles * CYCLE_S)
    end, busy_s = time.time(), _busy_s() - busy_s
    grown_mb = {name: mb - stored_mb[name] for name, mb in world.stored_mb().items()}
    time.sleep(TAIL_S)
    world.check()
    lake, known, failed = world.lake, time.time(), _failed(world, begin)
    others = max(0.0, busy_s - sum(meter.used_s.values())) / (end - begin)
    changes = changed_slots(lake, begin, end)
    return Window(begin, end, known, meter.used_s, histories(lake, pipelines), failed, changes, others, grown_mb)


def _failed(world: World, since: float) -> tuple[str, ...]:
    """Return ``DAG.task`` of the task instances of all DAGs that have failed since a time, at most 1000 of them."""
    asked = {"state": "failed", "end_date_gte": datetime.fromtimestamp(since, UTC).isoformat(), "limit": 1000}
    tasks = AirflowApi.of(world.home).get("/api/v2/dags/~/dagRuns/~/taskInstances", asked)["task_instances"]
    return tuple(f"{task['dag_id']}.{task['task_id']}" for task in tasks)


def _busy_s() -> float:
    """Return the processor time that all programs have used since the machine started, seconds."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)

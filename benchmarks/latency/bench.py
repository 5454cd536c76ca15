"""From telemetry to the first batch on other executors, step by step, with the whole stack in the demo's conditions.

First the demo decides by itself. Then ``adapt_delays`` is triggered as if by a person who requests one executor more
and two more, repeatedly, to get enough samples of each. The figures are read from the lake (``stages.py``). The whole
run takes about fifteen minutes, the quick run eight.
"""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.latency.demo_run import PIPELINE, DemoRun, demo
from benchmarks.latency.stages import (
    DECISION_LIMITS,
    NO_LIMITS,
    REGISTERED_LIMITS,
    STEPS,
    Change,
    changes_up,
    waits_for_decisions,
)
from benchmarks.record import Record, at_most, percentiles
from millrace.lake.store import Lake
from millrace.local.stack.airflow_api import AirflowApi
from millrace.pipelines.catalog import BUILT_IN, load

BENCH, METHOD = "latency", "millrace"
ADAPT = f"adapt_{PIPELINE}"
ROUND = (2, 4, 2, 6)
"""Requested slots, whatever the demo ended with: back to one executor, one more, back, two more."""
REST_S = 3.0
MEMORY_LIMIT_GB = 3.0
EXECUTORS = {1: "one more", 2: "two more"}


def run(quick: bool) -> list[Record]:
    """Run the demo, request executors, and read the times of each step.

    Args:
        quick: A shorter day, and fewer requests.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a clean shutdown, as with Ctrl-C
    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
        root = Path(folder).resolve()
        with demo(root, ["--day-s=240", "--fold-days=10"] if quick else []) as demo_run:
            _ask(demo_run, 2 if quick else 10)
            lake = Lake(demo_run.home.lake)
            spec = load(BUILT_IN / "delays.yaml", {"MILLRACE_HOME": str(demo_run.home.root)})
            changes = changes_up(spec, lake, [life.begin for life in demo_run.executors.lives()])
            waits = waits_for_decisions(lake, PIPELINE)
    ended = [
        _judged("demo", "highest pss of stack and job", demo_run.memory_gb, "GB", MEMORY_LIMIT_GB),
        _judged("demo", "failed", float(not demo_run.held), "runs", 0),
    ]
    decided = percentiles(BENCH, "evaluation", METHOD, "commit to decision recorded, p{}", waits, DECISION_LIMITS)
    return [*decided, *step_records(changes), *ended]


def _judged(scenario: str, figure: str, value: float, unit: str, limit: float) -> Record:
    target, holds = at_most(value, limit)
    return Record(BENCH, scenario, METHOD, figure, value, unit, target=target, holds=holds)


def _ask(demo_run: DemoRun, rounds: int) -> None:
    """Request slots like a person in Airflow, and wait until each request has been carried out."""
    api = AirflowApi.of(demo_run.home)
    for slots in ROUND * rounds:
        api.wait_for_run(ADAPT, api.trigger(ADAPT, {"slots": slots}))
        time.sleep(REST_S)


def step_records(changes: Sequence[Change]) -> list[Record]:
    """Return median and 95th percentile of each step, and of all steps from the Decision on, by new executors."""
    records = []
    for name in STEPS:
        values = [c.steps[name] for c in changes if name in c.steps]
        records += percentiles(BENCH, "change", METHOD, f"{name}, p{{}}", values, NO_LIMITS)
    for executors, scenario in EXECUTORS.items():
        values = [c.registered - c.decision for c in changes if c.executors == executors]
        limits = REGISTERED_LIMITS.get(executors, NO_LIMITS)
        records += percentiles(BENCH, scenario, METHOD, "decision to registered, p{}", values, limits)
    return records

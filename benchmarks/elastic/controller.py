"""A controller in its own process: evaluates when telemetry is committed, at most once per period.

It does the work of the DAG ``adapt_<pipeline>``, with the same control loop on the same tables, but without Airflow's
scheduling and without MLflow; ``bench latency`` measures what these cost.

Usage: ``python -m benchmarks.elastic.controller SPEC POLICY``, where POLICY is ``live``, ``ratio TRIGGER_S``,
``hpa TARGET`` or ``forced SLOTS,SLOTS,... REST_S``.
"""

from __future__ import annotations

import importlib
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

from benchmarks.elastic.cluster import EXECUTOR
from benchmarks.elastic.hpa import LOOK_S, Hpa, ProcessorUse
from benchmarks.elastic.ratio import executors_for
from millrace.control.batch_history import read_batches, sound
from millrace.control.evaluation import NO_REQUEST, Request
from millrace.lake.commit_follower import CommitFollower
from millrace.lake.control_tables import ControlTables
from millrace.model.deployment import Deployment
from millrace.model.errors import Conflict, NotReady, Settled
from millrace.model.spec import PipelineSpec
from millrace.wiring import control_loop, control_tables, reconciler_for

LOG = logging.getLogger("controller")
TELEMETRY = "telemetry/batches"
POLL_S = 0.5
"""Same as the DAG's trigger."""


def evaluate(spec: PipelineSpec, request: Request = NO_REQUEST) -> None:
    """Observe, decide and apply like the DAG's three tasks, each with its own loop."""
    try:
        observation = control_loop(spec).observe(request)
        loop = control_loop(spec)
        decision = loop.decide(observation, request)
        due = loop.commit(decision, request)
        LOG.info("%s: %s", decision.action, decision.sentence)
        if due is not None:
            control_loop(spec).apply(due)
    except (NotReady, Settled, Conflict) as outcome:
        LOG.info("%s", outcome)


def ratio_policy(spec: PipelineSpec, trigger_s: float) -> Callable[[], None]:
    """Return an evaluation based on batch time over trigger interval; see :mod:`benchmarks.elastic.ratio`."""
    tables = control_tables()
    reconciler = reconciler_for(spec, tables)
    since = datetime.now(UTC)

    def evaluate_ratio() -> None:
        nonlocal since
        began, latest = since, tables.deployments.latest(spec.name)
        since = datetime.now(UTC)
        if latest is None or not latest.running:
            return
        app = latest.apps[spec.app]
        size = app.slots_per_executor
        batches = [b for b in sound(read_batches(tables.lake, spec.name, spec.app, since)) if b.time > began]
        ratio = fmean(b.duration_s for b in batches) / trigger_s if batches else 0.0
        slots = size * executors_for(ratio, app.executors, spec.slots.min // size, spec.slots.max // size)
        _resize(spec, tables, reconciler.reconcile, latest, slots, f"ratio {ratio:.2f}")

    return evaluate_ratio


def hpa_policy(spec: PipelineSpec, target: float) -> Callable[[], None]:
    """Return an evaluation based on processor use; see :mod:`benchmarks.elastic.hpa`."""
    tables = control_tables()
    reconciler = reconciler_for(spec, tables)
    size = spec.executor.cores if spec.executor else 1
    rule, use = Hpa(target, size, spec.slots.min // size, spec.slots.max // size), ProcessorUse(EXECUTOR)
    since = time.monotonic()

    def look() -> None:
        nonlocal since
        began, since = since, time.monotonic()
        used, latest = use.since_last(since - began), tables.deployments.latest(spec.name)
        if latest is None or not latest.running:
            return
        executors = rule.executors_for(since, used, latest.apps[spec.app].executors)
        _resize(spec, tables, reconciler.reconcile, latest, size * executors, f"{used:.2f} cores used")

    return look


def _resize(
    spec: PipelineSpec,
    tables: ControlTables,
    reconcile: Callable[[], object],
    latest: Deployment,
    slots: int,
    reason: str,
) -> None:
    app = latest.apps[spec.app]
    LOG.info("%s: %d to %d slots", reason, app.slots, slots)
    if slots != app.slots:
        tables.deployments.commit(
            replace(latest, apps={spec.app: replace(app, slots=slots)}, reason=reason), latest.version
        )
        reconcile()


def follow(spec: PipelineSpec, evaluate: Callable[[], None]) -> None:
    """Evaluate after telemetry commits, at most once per period, until killed."""
    log, pending, due = CommitFollower(control_tables().lake.log(TELEMETRY), spec.name), False, time.monotonic()
    while True:
        pending |= log.advance()
        if pending and time.monotonic() >= due:
            pending, due = False, time.monotonic() + spec.period_s
            evaluate()
        time.sleep(POLL_S)


def force(spec: PipelineSpec, slots: Sequence[int], rest_s: float) -> None:
    """Request one number of slots after the other, as a person would, with a rest after each."""
    for number in slots:
        evaluate(spec, Request(forced_slots=number, requested_by="bench"))
        time.sleep(rest_s)


def main(path: str, policy: str, *arguments: str) -> None:
    """Run a policy."""
    logging.basicConfig(format="%(asctime)s %(message)s")
    LOG.setLevel(logging.INFO)
    spec = PipelineSpec.model_validate_json(Path(path).read_text(encoding="utf-8"))
    importlib.import_module("millrace.local.stack.airflow.airflow_local_settings")  # the scheduler has imported this
    print("ready", flush=True)
    if policy == "live":
        follow(spec, lambda: evaluate(spec))
    elif policy == "ratio":
        follow(spec, ratio_policy(spec, float(arguments[0])))
    elif policy == "hpa":
        look = hpa_policy(spec, float(arguments[0]))
        while True:
            look()
            time.sleep(LOOK_S)
    else:
        force(spec, [int(number) for number in arguments[0].split(",")], float(arguments[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Checks of each pipeline: spec, desired state, repeated failures and last evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from millrace.drivers import driver_log, failure_history
from millrace.drivers.failure_history import fingerprint
from millrace.environment.jars import CONNECTORS
from millrace.lake.pace import late_after_s, read_pace_s
from millrace.lake.store import Lake
from millrace.local.cli.status import PipelineStatus
from millrace.local.doctor.finding import Finding, of_error, ok, problem, warning
from millrace.model.errors import MillraceError
from millrace.model.spec import PipelineSpec
from millrace.run_folder.driver_records import app_dir
from millrace.wiring import airflow_is_elsewhere

SLACK_S = 60.0
"""Time that Airflow may take from an event to a Decision."""


def specs(good: Mapping[str, PipelineSpec], wrong: list[MillraceError]) -> list[Finding]:
    """Return one finding per invalid spec, or one that all specs are valid."""
    if wrong:
        return [of_error("spec", error) for error in wrong]
    return [ok("specs", f"{', '.join(good) or 'none'}: valid.")]


def connectors(specs: Mapping[str, PipelineSpec]) -> list[Finding]:
    """Return one finding per connector in a spec whose jars are missing."""
    wanted = {connector: name for name, spec in specs.items() for connector in spec.submit.connectors}
    return [
        problem(name, f"The jars of its connector {connector} are missing.", f"Run ./millrace setup {connector}.")
        for connector, name in wanted.items()
        if CONNECTORS[connector].missing()
    ]


def has_spec(status: PipelineStatus, specs: Mapping[str, PipelineSpec]) -> Finding:
    """Check that a pipeline that should run still has a spec."""
    name = status.wanted.pipeline
    if name in specs:
        return ok(name, "Its spec exists.")
    told = f"{name} should run, but its spec is missing or invalid: Millrace cannot restart it."
    return problem(name, told, "Restore the spec, or add its folder to MILLRACE_PIPELINES.")


def runs(status: PipelineStatus, log_dir: Path) -> Finding:
    """Check that a pipeline runs as wanted."""
    name = status.wanted.pipeline
    if status.problem is not None:
        logs = [driver_log.path(log_dir, name, driver.app, driver.generation) for driver in status.drivers]
        return problem(name, status.problem, f"Read the driver's log: {next(iter(logs), log_dir)}.")
    _, wanted, drivers, _, _ = status.cells()
    return ok(name, f"Wanted: {wanted}; drivers: {drivers}.")


def circuit(status: PipelineStatus, run_dir: Path) -> Finding:
    """Check that a running pipeline did not fail repeatedly before."""
    name = status.wanted.pipeline
    if not status.wanted.running:
        return ok(name, "It is stopped.")
    for app, content in status.wanted.apps.items():
        if status.wanted.wanted(app) is None:
            continue  # what has failed counts once the app is needed again
        failures = failure_history.load(app_dir(run_dir, name, app)).contents.get(fingerprint(content))
        if failures is not None and failures.open:
            told = f"Its driver failed {failures.failures} times since it last ran for five minutes: {failures.error}"
            return warning(
                name, f"{told.rstrip('.')}.", "Fix the cause; this warning ends once a driver has run for five minutes."
            )
    return ok(name, "Its circuit is closed.")


def evaluated(status: PipelineStatus, spec: PipelineSpec, lake: Lake, now: datetime | None = None) -> Finding:
    """Check that a pipeline was evaluated recently; missing telemetry triggers an evaluation too."""
    name, now = status.wanted.pipeline, now or datetime.now(UTC)
    if status.decision is None:
        return ok(name, "Not evaluated yet.")
    age_s = (now - status.decision["time"]).total_seconds()
    patience_s = spec.quality.max_age_s + 2 * spec.period_s + SLACK_S
    if age_s <= late_after_s(read_pace_s(lake, name), patience_s):
        return ok(name, f"Evaluated {age_s:.0f} s ago.")
    resume, logs = f"./millrace resume {name}", "./millrace logs triggerer, then ./millrace logs scheduler"
    if airflow_is_elsewhere():
        resume, logs = f"unpause the DAG adapt_{name}", "the logs of Airflow's triggerer and scheduler"
    remedy = f"If it is paused: {resume}. Otherwise read {logs}."
    return warning(name, f"The last evaluation of {name} was {age_s / 60:.0f} min ago.", remedy)

"""Each pipeline: its spec, whether what is wanted runs, what failed again and again, and when it was last evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from millrace.drivers import driver_log, failure_history
from millrace.drivers.failure_history import fingerprint
from millrace.lake.pace import late_after_s, read_pace_s
from millrace.lake.store import Lake
from millrace.local.cli.status import PipelineStatus
from millrace.local.doctor.finding import Finding, of_error, ok, problem, warning
from millrace.local.stack.jars import CONNECTORS
from millrace.model.errors import MillraceError
from millrace.model.spec import PipelineSpec
from millrace.run_folder.driver_records import app_dir

SLACK_S = 60.0
"""Time that Airflow may take from an event to a Decision."""


def specs(good: Mapping[str, PipelineSpec], wrong: list[MillraceError]) -> list[Finding]:
    """Return what is wrong with specs, one finding each, or that they are well."""
    if wrong:
        return [of_error("spec", error) for error in wrong]
    return [ok("specs", f"{', '.join(good) or 'none'}: read and understood.")]


def connectors(specs: Mapping[str, PipelineSpec]) -> list[Finding]:
    """Return which connectors specs ask for whose jars are not here, one finding each."""
    wanted = {connector: name for name, spec in specs.items() for connector in spec.submit.connectors}
    return [
        problem(name, f"Its connector {connector} has no jars here.", f"Run ./millrace setup {connector}.")
        for connector, name in wanted.items()
        if CONNECTORS[connector].missing()
    ]


def has_spec(status: PipelineStatus, specs: Mapping[str, PipelineSpec]) -> Finding:
    """Return whether a pipeline that is to run still has a spec."""
    name = status.wanted.pipeline
    if name in specs:
        return ok(name, "It has its spec.")
    told = f"{name} is to run, and its spec is gone or broken: nobody starts it again."
    return problem(name, told, "Bring the spec back, or name its folder in MILLRACE_PIPELINES.")


def runs(status: PipelineStatus, log_dir: Path) -> Finding:
    """Return whether what is wanted of a pipeline runs."""
    name = status.wanted.pipeline
    if status.problem is not None:
        logs = [driver_log.path(log_dir, name, driver.app, driver.generation) for driver in status.drivers]
        return problem(name, status.problem, f"Its driver's log is {next(iter(logs), log_dir)}.")
    _, wanted, drivers, _, _ = status.cells()
    return ok(name, f"Wanted: {wanted}; drivers: {drivers}.")


def circuit(status: PipelineStatus, run_dir: Path) -> Finding:
    """Return whether a pipeline that runs now has failed again and again before."""
    name = status.wanted.pipeline
    if not status.wanted.running:
        return ok(name, "It is stopped: nothing is tried.")
    for app, content in status.wanted.apps.items():
        failures = failure_history.load(app_dir(run_dir, name, app)).contents.get(fingerprint(content))
        if failures is not None and failures.open:
            told = f"The circuit is open: it failed {failures.failures} times, the last time with {failures.error}"
            return warning(name, f"{told.rstrip('.')}.", "Fix the cause; it closes after five minutes of service.")
    return ok(name, "Its circuit is closed.")


def evaluated(status: PipelineStatus, spec: PipelineSpec, lake: Lake, now: datetime | None = None) -> Finding:
    """Return whether a pipeline was evaluated lately: telemetry that stays away is evaluated too."""
    name, now = status.wanted.pipeline, now or datetime.now(UTC)
    if status.decision is None:
        return ok(name, "Not evaluated yet.")
    age_s = (now - status.decision["time"]).total_seconds()
    patience_s = spec.quality.max_age_s + 2 * spec.period_s + SLACK_S
    if age_s <= late_after_s(read_pace_s(lake, name), patience_s):
        return ok(name, f"Evaluated {age_s:.0f} s ago.")
    remedy = f"Was it paused? ./millrace resume {name}. Else ./millrace logs triggerer, and scheduler, say why."
    return warning(name, f"The last evaluation of {name} was {age_s / 60:.0f} min ago.", remedy)

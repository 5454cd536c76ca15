"""Reconciling through a runner: it owns the drivers; all others write Deployments and wait for it.

Drivers must not die with the container that decided. So if there is a runner, only the runner starts and stops drivers.
It writes the version that it has applied, and a heartbeat, to the run folder that both sides share.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from millrace.atomic_file import write_atomically
from millrace.lake.control_tables import ControlTables
from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.errors import MillraceError, NotReady
from millrace.model.spec import PipelineSpec

POLL_S = 0.5
RUNNER_SLACK_S = 30.0
STATUS_FILE = "reconciled.json"
HEARTBEAT_FILE = "runner.heartbeat"
SILENT_S = 30.0
"""A runner without a heartbeat for this long is dead or hangs; it writes one every second."""
RESTART = "Restart it: docker compose up -d runner, or ./millrace runner."


def show_life(run_dir: Path) -> None:
    """Write the runner's heartbeat."""
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / HEARTBEAT_FILE).touch()


def silence(run_dir: Path) -> str | None:
    """Return how long the runner has been silent, as text; None if all is well."""
    try:
        silent_s = time.time() - (run_dir / HEARTBEAT_FILE).stat().st_mtime
    except FileNotFoundError:
        return "the runner, which owns the drivers, has not started yet"
    return f"the runner, which owns the drivers, was last seen {silent_s:.0f} s ago" if silent_s > SILENT_S else None


def problem(run_dir: Path, deployment: Deployment) -> str | None:
    """Return why a Deployment does not run as it should, as the runner reports it; None if all is well.

    Args:
        run_dir: The shared run folder.
        deployment: A pipeline's newest Deployment.
    """
    if deployment.running and not deployment.detached and (silent := silence(run_dir)) is not None:
        return f"{deployment.pipeline} is not supervised: {silent}. {RESTART}"
    told: str | None = read_status(run_dir, deployment.pipeline).get("problem")
    return told


def write_status(
    run_dir: Path, pipeline: str, version: int, problem: str | None = None, *, running: bool = True
) -> None:
    """Write, as the runner, that a pipeline's version has been reconciled, or why it does not run.

    Args:
        run_dir: The shared run folder.
        pipeline: Name of the pipeline.
        version: The Deployment version that was reconciled.
        problem: The problem; None if there is none.
        running: Whether a driver of the pipeline is alive.
    """
    status = {"version": version, "problem": problem, "running": running}
    write_atomically(run_dir / pipeline / STATUS_FILE, json.dumps(status), key="run folder", sync_folder=True)


def read_status(run_dir: Path, pipeline: str) -> dict[str, Any]:
    """Return what the runner last wrote about a pipeline; empty before the first time."""
    with suppress(FileNotFoundError, json.JSONDecodeError):
        status: dict[str, Any] = json.loads((run_dir / pipeline / STATUS_FILE).read_text(encoding="utf-8"))
        return status
    return {}


class DelegatedReconciler:
    """Waits until the runner has made a pipeline run its latest Deployment.

    Args:
        spec: The pipeline.
        tables: Contains its Deployments and reconfigurations.
        run_dir: The run folder shared with the runner.
        sleep: Waits between two reads of the runner's status, seconds.
    """

    def __init__(
        self, spec: PipelineSpec, tables: ControlTables, run_dir: Path, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._spec, self._tables, self._run_dir, self._sleep = spec, tables, run_dir, sleep

    def reconcile(self, wait_s: float | None = None, patience_s: float | None = None) -> tuple[Reconfiguration, ...]:
        """Wait for the runner and return what it changed, oldest first.

        The runner may have changed it before this call: if a version was just made, that is what changed since then.

        Args:
            wait_s: How long to wait, seconds; by default as long as a hand-over may take. If given, only what changed
                since this call is returned.
            patience_s: Unused; the runner has its own.

        Raises:
            NotReady: Quietly, if ``wait_s`` was given and the runner has not reached the version by then.
            MillraceError: If the runner is dead, does not respond in time, or reports that it could not do it.
        """
        latest = self._tables.deployments.latest(self._spec.name)
        if latest is None:
            return ()
        began = datetime.now(UTC)
        limit_s = self._spec.ready_deadline_s * 2 + self._spec.stop_deadline_s + RUNNER_SLACK_S
        deadline = time.monotonic() + (limit_s if wait_s is None else wait_s)
        while not self._done(latest.version):
            if time.monotonic() >= deadline:
                if (silent := silence(self._run_dir)) is not None:
                    raise MillraceError("runner", silent, f"seen in the last {SILENT_S:g} s", RESTART)
                if wait_s is not None:
                    raise NotReady(f"{self._spec.name}: the runner has not applied version {latest.version} yet")
                if under_way := self._under_way(latest.version):
                    return under_way
                remedy = "Check that the runner is up (`./millrace runner`) and shares this home."
                raise MillraceError("runner", "no answer", f"version {latest.version} within {limit_s:.0f} s", remedy)
            self._sleep(POLL_S)
        if wait_s is None:
            made = self._tables.deployments.committed_at(self._spec.name, latest.version)
            began = made if made is not None and began - made < timedelta(seconds=limit_s) else began
        return tuple(reversed(self._tables.reconfigurations.recent(self._spec.name, since=began)))

    def running(self) -> bool:
        """Return whether a driver of the pipeline is alive, according to the runner's status."""
        return bool(read_status(self._run_dir, self._spec.name).get("running"))

    def problem(self) -> str | None:
        """Return why the pipeline does not run as it should, as the runner reports it; None if all is well."""
        latest = self._tables.deployments.latest(self._spec.name)
        return None if latest is None else problem(self._run_dir, latest)

    def _under_way(self, version: int) -> tuple[Reconfiguration, ...]:
        """Return the runner's changes for a version that are still in progress."""
        changes = self._tables.reconfigurations.recent(self._spec.name)
        return tuple(c for c in changes if c.outcome is Outcome.OPEN and c.to_version == version)

    def _done(self, version: int) -> bool:
        status = read_status(self._run_dir, self._spec.name)
        if status.get("version", 0) < version:
            return False
        if status["problem"]:
            allowed = "a pipeline that the runner can keep running"
            raise MillraceError("pipeline", self._spec.name, allowed, status["problem"])
        return True

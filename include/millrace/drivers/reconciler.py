"""Makes what runs match a Deployment; safe to call at any time, by anyone, and to kill at any point."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from millrace.drivers import driver_log
from millrace.drivers.app_drivers import AppDrivers, apps_of, problem
from millrace.drivers.app_reconciler import AppReconciler, Method
from millrace.drivers.handover import HandOver
from millrace.drivers.launcher import Launcher
from millrace.drivers.reconfiguration_log import ReconfigurationLog
from millrace.drivers.rescaler import Rescaler
from millrace.drivers.step_result import StepResult
from millrace.drivers.submit import SubmitOptions
from millrace.lake.control_tables import ControlTables
from millrace.lake.driver_hosts import elsewhere, gone_after, this_host
from millrace.model.decision import Reconfiguration
from millrace.model.deployment import Deployment, is_node_name
from millrace.model.errors import MillraceError, NotReady
from millrace.model.spec import PipelineSpec
from millrace.run_folder.discovery import find
from millrace.run_folder.driver_records import DriverRecord
from millrace.run_folder.generation import newest

LOCK_SLACK_S = 30.0
MOST_STEPS = 6
"""Start, fail, roll back, start the old content, and two spare steps."""


class Reconciler:
    """Starts, stops and replaces a pipeline's drivers; the only place that does.

    Args:
        spec: The pipeline.
        tables: Contains its Deployments and takes its reconfigurations.
        run_dir: Folder of records, locks and generations.
        log_dir: Folder of the drivers' logs.
        submit: Settings for every driver of this installation.
        method: ``hand-over`` starts the successor first; ``plain`` stops the predecessor first.
        clock: Returns the current time (UTC).
    """

    def __init__(
        self,
        spec: PipelineSpec,
        tables: ControlTables,
        run_dir: Path,
        log_dir: Path,
        submit: SubmitOptions,
        method: Method = "hand-over",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._spec, self._tables = spec, tables
        self._run_dir, self._log_dir = run_dir.resolve(), log_dir.resolve()
        self._method, self._clock = method, clock
        self._launcher = Launcher(spec, submit, tables.lake.location.uri, self._run_dir, self._log_dir)

    def reconcile(self, wait_s: float | None = None, patience_s: float | None = None) -> tuple[Reconfiguration, ...]:
        """Make the pipeline run its latest Deployment and return what changed.

        Args:
            wait_s: How long to wait for another call on the same pipeline, seconds; by default as long as a hand-over
                may take.
            patience_s: How long to wait for a start that makes progress, seconds; by default both deadlines together. A
                change that is not ready by then is returned open, and a later call finishes it.

        Raises:
            NotReady: Quietly, if the other call is still running then.
            MillraceError: If the run folder or the lake cannot be written, or another host runs the drivers.
        """
        usual_s = self._spec.ready_deadline_s + self._spec.stop_deadline_s
        with self._alone(self._spec.ready_deadline_s + usual_s + LOCK_SLACK_S if wait_s is None else wait_s):
            return self._steps(time.monotonic() + (usual_s if patience_s is None else patience_s))

    def stop_drivers(self, wait_s: float = 0.0) -> None:
        """Stop the pipeline's drivers after their running batch, by force after ``stop_deadline_s``.

        The Deployment stays, so the next :meth:`reconcile` starts them again. None of them counts as failed.

        Args:
            wait_s: How long to wait for another call on the same pipeline, seconds.

        Raises:
            NotReady: If the other call is still running then.
            MillraceError: If the run folder cannot be written.
        """
        with self._alone(wait_s):
            hand_over = self._hand_over(time.monotonic())
            for app in self._apps(None):
                drivers = self._drivers(app)
                drivers.end(drivers.live(), hand_over)

    def commands(self, deployment: Deployment) -> list[str]:
        """Return the shell commands that start each app of a version by hand, as the app's next driver.

        Raises:
            MillraceError: If the cluster of the local stack is needed and does not run.
        """
        folder, of = self._run_dir / self._spec.name, deployment.version
        apps = sorted(deployment.apps.items())
        return [self._launcher.command(app, name, of, newest(folder / name) + 1) for name, app in apps]

    def running(self) -> bool:
        """Return whether a driver of the pipeline is alive."""
        return bool(find(self._run_dir, self._spec.name))

    def problem(self) -> str | None:
        """Return why the pipeline does not run as wanted, or what runs but should not; None if all is well."""
        deployments = self._tables.deployments
        latest = deployments.latest(self._spec.name)
        if latest is None:
            return None
        return problem(self._run_dir, latest, deployments, self._clock(), self._log_dir, self._spec.period_s)

    def status(self) -> tuple[DriverRecord, ...]:
        """Return each app's live drivers, its newest one, and its last failure that still counts; newest first.

        A driver whose process ended without a report counts as failed.
        """
        apps = self._apps(self._tables.deployments.latest(self._spec.name))
        return tuple(record for app in apps for record in self._drivers(app).status())

    @contextmanager
    def _alone(self, wait_s: float) -> Iterator[None]:
        """Exclude other calls on the same pipeline while the block runs."""
        folder = self._run_dir / self._spec.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(folder / "reconcile.lock", timeout=wait_s):
                yield
        except Timeout:
            raise NotReady(f"{self._spec.name}: another reconcile is running") from None
        except OSError as error:
            raise MillraceError("run folder", str(folder), "a writable folder with free space", str(error)) from error

    def _check_host(self, deployment: Deployment) -> None:
        """Refuse to start a driver that another host runs: both would write to the same checkpoint."""
        if not deployment.running or self.running():
            return
        other = elsewhere(self._tables.lake, self._spec.name, self._clock(), self._spec.period_s)
        if other is not None:
            allowed = f"{other[0]}, whose driver was seen {other[1]:.0f} s ago"
            silent_s = gone_after(self._spec.period_s).total_seconds()
            remedy = f"Start all drivers of a home on one host; if {other[0]} is gone, wait {silent_s:.0f} s."
            raise MillraceError("host of the drivers", this_host(), allowed, remedy)

    def _steps(self, leave_at_s: float) -> tuple[Reconfiguration, ...]:
        driver_log.bound_all(self._log_dir, self._spec.name)
        changes: list[Reconfiguration] = []
        for _ in range(MOST_STEPS):
            deployment = self._tables.deployments.latest(self._spec.name)
            if deployment is None or deployment.detached:
                break
            self._check_host(deployment)
            self._launcher.reap()
            steps = self._step_each(deployment, leave_at_s)
            changes += [change for step in steps for change in step.changes]
            if not any(step.again for step in steps):
                break
        return tuple(changes)

    def _step_each(self, deployment: Deployment, leave_at_s: float) -> list[StepResult]:
        """Take the next step of all apps, first of those that are gone: one with a new name may use their checkpoint.

        The streams of a fleet's nodes have locks of their own, and move only to nodes that run.
        """
        apps = self._apps(deployment)
        nodes = self._spec.fleet is not None
        gone = [app for app in apps if app not in deployment.apps and not (nodes and is_node_name(app))]
        rest = [app for app in apps if app not in gone]
        return [step for group in (gone, rest) if group for step in self._step_all(group, deployment, leave_at_s)]

    def _step_all(self, names: Sequence[str], deployment: Deployment, leave_at_s: float) -> list[StepResult]:
        """Take the next step of apps at the same time: one that starts slowly must not keep the others waiting."""
        apps = [self._app(app, leave_at_s) for app in names]
        if len(apps) == 1:
            return [apps[0].step(deployment)]
        with ThreadPoolExecutor(len(apps), thread_name_prefix="reconcile") as pool:
            return list(pool.map(lambda app: app.step(deployment), apps))

    def _apps(self, deployment: Deployment | None) -> list[str]:
        return apps_of(self._run_dir, self._spec.name, deployment.apps if deployment else list(self._spec.app_specs))

    def _drivers(self, app: str) -> AppDrivers:
        spec, deployments = self._spec, self._tables.deployments
        return AppDrivers(self._run_dir, spec.name, app, deployments, self._log_dir, spec.period_s)

    def _hand_over(self, leave_at_s: float) -> HandOver:
        spec = self._spec
        return HandOver(self._run_dir, spec.name, spec.ready_deadline_s, spec.stop_deadline_s, leave_at_s)

    def _app(self, app: str, leave_at_s: float) -> AppReconciler:
        spec, drivers, quota = self._spec, self._drivers(app), self._spec.guards.max_total_slots
        log = ReconfigurationLog(spec.name, app, self._tables, self._clock)
        hand_over = self._hand_over(leave_at_s)
        return AppReconciler(
            drivers=drivers,
            log=log,
            hand_over=hand_over,
            method=self._method,
            quota=quota,
            hang_deadline_s=spec.hang_deadline_s,
            clock=self._clock,
            launcher=self._launcher,
            rescaler=Rescaler(drivers, log, self._launcher, hand_over, quota, self._clock),
        )

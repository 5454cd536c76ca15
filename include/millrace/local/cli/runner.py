"""The command runner: start and stop the drivers of the shared deployment; they outlive Airflow's containers."""

from __future__ import annotations

import logging
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millrace.environment.home import Home
from millrace.model.decision import Outcome
from millrace.model.errors import Conflict, MillraceError, NotReady
from millrace.model.failure import reason

if TYPE_CHECKING:
    from millrace.drivers.reconciler import Reconciler
    from millrace.lake.control_tables import ControlTables

PATIENCE_S = 5.0
"""How long a round watches a start. The start continues without it; a stop of the runner waits for rounds."""

log = logging.getLogger("millrace.runner")


@click.command()
@click.option(
    "--every", "every_s", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Seconds between rounds."
)
@click.option(
    "--stop-drivers", is_flag=True, help="Stop the drivers with the runner; the end of its container would kill them."
)
def runner(every_s: float, stop_drivers: bool) -> None:
    """Keep every launched pipeline on its latest Deployment until stopped; the drivers keep running by default."""
    from millrace.drivers.delegated_reconciler import show_life
    from millrace.lake.migration import migrate_all
    from millrace.wiring import control_tables

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    tables, run_dir = control_tables(), Home.from_env().run / "drivers"
    rounds = Rounds(run_dir)
    migrate_all(tables.lake)
    log.info("the runner owns the drivers of %s", tables.lake.location)
    with ThreadPoolExecutor(thread_name_prefix="pipeline") as pool:
        while not ended.is_set():
            show_life(run_dir)
            rounds.start_due(pool, tables)
            ended.wait(every_s)
    if stop_drivers:
        rounds.stop_drivers()


class Rounds:
    """At most one round per pipeline at a time; a slow start does not delay the other pipelines.

    Args:
        run_dir: The run folder, shared with the processes that wait for the runner.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._at_work: dict[str, Future[None]] = {}
        self._reconcilers: dict[str, tuple[str, Reconciler]] = {}

    def start_due(self, pool: ThreadPoolExecutor, tables: ControlTables) -> None:
        """Start a round of every pipeline whose last round has ended."""
        try:
            latest = tables.deployments.all_latest()
        except MillraceError as error:
            log.warning("%s", error)
            return
        for deployment in latest:
            name = deployment.pipeline
            if deployment.is_external:
                continue
            if name not in self._at_work or self._at_work[name].done():
                self._at_work[name] = pool.submit(self._round, name, deployment.version)

    def stop_drivers(self) -> None:
        """Stop the drivers of all pipelines in parallel, each at a batch boundary; no round may be running."""
        with ThreadPoolExecutor(max_workers=max(1, len(self._reconcilers))) as pool:
            for name, future in [(n, pool.submit(r.stop_drivers)) for n, (_, r) in self._reconcilers.items()]:
                try:
                    future.result()
                except (NotReady, MillraceError) as error:
                    log.warning("%s: %s", name, error)

    def _round(self, name: str, version: int) -> None:
        from millrace.drivers.delegated_reconciler import write_status
        from millrace.reporting.metrics import export_changes

        problem, running = None, False
        try:
            reconciler = self._reconciler(name)
            changes = reconciler.reconcile(wait_s=0, patience_s=PATIENCE_S)
            export_changes(changes)
            for change in changes:
                to = "" if change.to_version is None else f" version {change.to_version}"
                error = f": {change.error}" if change.error else ""
                log.info("%s%s: %s%s", name, to, change.outcome.value, error)
            if any(change.outcome is Outcome.OPEN for change in changes):
                return  # still starting
            problem, running = reconciler.problem(), reconciler.running()
        except (NotReady, Conflict) as outcome:
            log.info("%s", outcome)
            return
        except MillraceError as error:
            problem = str(error)
            log.warning("%s", problem)
        except Exception as error:
            problem = reason(error)
            log.exception("%s", name)
        write_status(self._run_dir, name, version, problem, running=running)

    def _reconciler(self, name: str) -> Reconciler:
        """Return the pipeline's reconciler, kept between rounds because it waits for the processes it started.

        Each has its own tables: rounds are threads, and a lake's handles belong to one thread.
        """
        from millrace.pipelines.catalog import find
        from millrace.wiring import control_tables, own_reconciler

        spec = find(name)
        if self._reconcilers.get(name, ("",))[0] != spec.config_hash:
            self._reconcilers[name] = spec.config_hash, own_reconciler(spec, control_tables())
        return self._reconcilers[name][1]

"""Which reconciler a pipeline of this installation has: its own, or word to the runner that owns the drivers.

Imports are inside the functions: whoever parses DAGs or shows a command's help must not pay for them.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from include.drivers.delegate import DelegatedReconciler
    from include.drivers.reconciler import Reconciler
    from include.lake.store import Lake
    from include.model.backtest import Backtest
    from include.model.deployment import Deployment
    from include.model.protocols import Optimizer
    from include.model.spec import PipelineSpec

RUNNER_VARIABLE = "MILLRACE_RUNNER"
"""Set where a runner owns the drivers (docker-compose.yaml): nobody else starts or stops one."""


def lake() -> Lake:
    """Return the lake of the home that ``MILLRACE_HOME`` names."""
    from include.lake.store import Lake
    from include.local.stack.home import Home

    return Lake(Home.from_env().lake)


def reconciler_for(spec: PipelineSpec, tables: Lake) -> Reconciler | DelegatedReconciler:
    """Return what makes a pipeline run its latest Deployment here."""
    if os.environ.get(RUNNER_VARIABLE):
        from include.drivers.delegate import DelegatedReconciler
        from include.local.stack.home import Home

        return DelegatedReconciler(spec, tables, Home.from_env().run / "drivers")
    return own_reconciler(spec, tables)


def own_reconciler(spec: PipelineSpec, tables: Lake) -> Reconciler:
    """Return the reconciler that starts and stops drivers as processes of this machine."""
    from include.drivers.reconciler import Reconciler
    from include.local.stack.home import Home
    from include.local.stack.spark_env import submit_options

    home = Home.from_env()
    return Reconciler(spec, tables, home.run / "drivers", home.logs / "drivers", submit_options())


def problem(deployment: Deployment, tables: Lake) -> str | None:
    """Say why what a pipeline's newest Deployment wants does not run; None if all is well."""
    from include.drivers.app_drivers import problem
    from include.drivers.delegate import read_status
    from include.lake.deployments import DeploymentStore
    from include.local.stack.home import Home

    run_dir = Home.from_env().run / "drivers"
    if os.environ.get(RUNNER_VARIABLE):  # its drivers are in the process table of another container
        return read_status(run_dir, deployment.pipeline).get("problem")
    return problem(run_dir, deployment, DeploymentStore(tables), datetime.now(UTC))


def replay(
    spec: PipelineSpec,
    tables: Lake,
    name: str,
    options: Mapping[str, Any],
    create: Callable[[str, Mapping[str, Any]], Optimizer],
    since: datetime | None,
    until: datetime,
) -> Backtest:
    """Take what was recorded of a pipeline through a tuner; nothing is written.

    Args:
        spec: The pipeline.
        tables: The lake.
        name: The tuner's registry name.
        options: Its options; those in the spec stay in force where the tuner is the spec's own.
        create: The registry of tuners.
        since: Time of the first look (UTC); None for a day before the last one.
        until: Latest time of a look (UTC).

    Raises:
        MillraceError: If the tuner or an option is unknown, or nothing was recorded in that time.
    """
    from include.control.observations import remembered
    from include.lake.memories import MemoryStore
    from include.reporting.backtest import Replay
    from include.reporting.recorded_plant import RecordedPlant
    from include.reporting.recording import read_recording

    whole = {**(spec.tuner.options if name == spec.tuner.name else {}), **options}
    optimizer = create(name, whole)
    found = read_recording(spec.name, tables, since, until)
    plant = RecordedPlant(found.looks, found.deployments, found.changes, remembered)
    memory = MemoryStore(tables).latest(spec.name, name, before=found.looks[0].time)
    return Replay(spec, tables, found, plant, name, optimizer, memory).run(whole)

"""Which reconciler a pipeline of this installation has: its own, or word to the runner that owns the drivers.

Imports are inside the functions: whoever parses DAGs or shows a command's help must not pay for them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from include.control.delegate import DelegatedReconciler
    from include.control.reconciler import Reconciler
    from include.lake.store import Lake
    from include.pipelines.spec import PipelineSpec

RUNNER_VARIABLE = "MILLRACE_RUNNER"
"""Set where a runner owns the drivers (docker-compose.yaml): nobody else starts or stops one."""


def lake() -> Lake:
    """Return the lake of the home that ``MILLRACE_HOME`` names."""
    from include.lake.store import Lake
    from include.stack.home import Home

    return Lake(Home.from_env().lake)


def reconciler_for(spec: PipelineSpec, tables: Lake) -> Reconciler | DelegatedReconciler:
    """Return what makes a pipeline run its latest Deployment here."""
    if os.environ.get(RUNNER_VARIABLE):
        from include.control.delegate import DelegatedReconciler
        from include.stack.home import Home

        return DelegatedReconciler(spec, tables, Home.from_env().run / "drivers")
    return own_reconciler(spec, tables)


def own_reconciler(spec: PipelineSpec, tables: Lake) -> Reconciler:
    """Return the reconciler that starts and stops drivers as processes of this machine."""
    from include.control.reconciler import Reconciler
    from include.stack.home import Home
    from include.stack.spark_env import submit_options

    home = Home.from_env()
    return Reconciler(spec, tables, home.run / "drivers", home.logs / "drivers", submit_options())

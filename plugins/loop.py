"""The wiring: which lake, plant, optimizer and tracker a pipeline's loop is made of.

Imports are inside the functions: DAG files import this module, and parsing them must stay cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from include.control.cycle import Loop
    from include.control.reconciler import Reconciler
    from include.lake.store import Lake
    from include.pipelines.spec import PipelineSpec


def lake() -> Lake:
    """Return the lake of the home that ``MILLRACE_HOME`` names."""
    from include.lake.store import Lake
    from include.stack.home import Home

    return Lake(Home.from_env().lake)


def loop_for(pipeline: str) -> Loop:
    """Return the loop of a pipeline.

    Raises:
        MillraceError: If there is no such pipeline, or its spec names an unknown optimizer or option.
    """
    import os
    from datetime import UTC, datetime

    from include.control.cycle import Loop
    from include.control.spark_plant import SparkPlant
    from include.pipelines.catalog import find
    from include.tracking.tracker import Tracker
    from optimizers.registry import create

    spec, tables = find(pipeline), lake()
    return Loop(
        spec=spec,
        lake=tables,
        plant=SparkPlant(spec, tables, _reconciler(spec, tables)),
        optimizers={spec.tuner.name: create(spec.tuner.name, spec.tuner.options)},
        tracker=Tracker(os.environ.get("MLFLOW_TRACKING_URI")),
        clock=lambda: datetime.now(UTC),
    )


def reconciler_for(pipeline: str) -> Reconciler:
    """Return the reconciler of a pipeline.

    Raises:
        MillraceError: If there is no such pipeline.
    """
    from include.pipelines.catalog import find

    return _reconciler(find(pipeline), lake())


def _reconciler(spec: PipelineSpec, tables: Lake) -> Reconciler:
    from include.control.reconciler import Reconciler
    from include.control.submit import SubmitOptions
    from include.stack import spark_env
    from include.stack.home import Home

    home = Home.from_env()
    options = SubmitOptions(
        spark_submit=spark_env.spark_submit(),
        jars=tuple(spark_env.delta_jars()),
        conf=spark_env.driver_submit_conf(),
        python=spark_env.python(),
        env=spark_env.environment(),
    )
    return Reconciler(spec, tables, home.run / "drivers", home.logs / "drivers", options)

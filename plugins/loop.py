"""The wiring: which lake, plant, optimizer and tracker a pipeline's loop is made of.

Imports are inside the functions: DAG files import this module, and parsing them must stay cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from include import wiring

if TYPE_CHECKING:
    from include.control.loop import Loop
    from include.drivers.delegate import DelegatedReconciler
    from include.drivers.reconciler import Reconciler


def loop_for(pipeline: str) -> Loop:
    """Return the loop of a pipeline.

    Raises:
        MillraceError: If there is no such pipeline, or its spec names an unknown optimizer or option.
    """
    import os
    from datetime import UTC, datetime

    from include.control.loop import Loop
    from include.control.spark_plant import SparkPlant
    from include.model.protocols import HasModel
    from include.pipelines.catalog import find
    from include.reporting.tracker import MlflowTracker
    from optimizers.registry import all_of

    spec, tables = find(pipeline), wiring.lake()
    optimizers = all_of(spec)
    tuner = optimizers[spec.tuner.name]
    fit = tuner.model if isinstance(tuner, HasModel) else None
    return Loop(
        spec=spec,
        lake=tables,
        plant=SparkPlant(spec, tables, wiring.reconciler_for(spec, tables)),
        optimizers=optimizers,
        tracker=MlflowTracker(os.environ.get("MLFLOW_TRACKING_URI"), fit),
        clock=lambda: datetime.now(UTC),
    )


def reconciler_for(pipeline: str) -> Reconciler | DelegatedReconciler:
    """Return the reconciler of a pipeline.

    Raises:
        MillraceError: If there is no such pipeline.
    """
    from include.pipelines.catalog import find

    return wiring.reconciler_for(find(pipeline), wiring.lake())

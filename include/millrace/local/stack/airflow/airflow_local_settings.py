"""Load what tasks need once. Airflow imports this file by its name; it is on the scheduler's path only.

The scheduler forks the tasks, so those that carry out a change find them loaded. Evaluations have processes of their
own (``millrace.evaluator.preloaded``).
"""

import contextlib
import importlib

for _name in (
    "deltalake",
    "pyarrow.dataset",
    "sklearn.gaussian_process",
    "skopt",
    "skops.io",
    "matplotlib.figure",
    "mlflow.sklearn",
    "git",  # mlflow asks it for the commit of a run
    "millrace.control.loop",
    "millrace.control.quality",
    "millrace.control.spark_plant",
    "millrace.drivers.external_reconciler",
    "millrace.drivers.reconciler",
    "millrace.environment.spark_env",
    "millrace.optimizers.registry",
    "millrace.optimizers.conttune.flow",
    "millrace.pipelines.catalog",
    "millrace.reporting.tracker",
):
    # the scheduler works without them; a task that needs a missing one reports it
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)

__all__: list[str] = []

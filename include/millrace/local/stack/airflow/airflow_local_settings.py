"""Load what tasks need once. Airflow imports this file by its name; it is on the scheduler's path only.

The scheduler forks the tasks, so those that carry out a change find them loaded. Evaluations have processes of their
own (``millrace.evaluator.preloaded``).
"""

from millrace.evaluator.preload import preload

preload(
    "skops.io",
    "matplotlib.figure",
    "mlflow.sklearn",
    "git",  # mlflow asks it for the commit of a run
    "millrace.drivers.external_reconciler",
    "millrace.drivers.reconciler",
    "millrace.environment.spark_env",
    "millrace.optimizers.conttune.flow",
)

__all__: list[str] = []

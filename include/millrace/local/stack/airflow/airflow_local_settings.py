"""Load the heavy packages once. Airflow imports this file by its name; it is on the scheduler's path only.

The scheduler forks the tasks, so those that carry out a change find them loaded. Evaluations have processes of their
own (``millrace.evaluator.preloaded``).
"""

import contextlib
import importlib

for _name in ("deltalake", "pyarrow.dataset", "sklearn.gaussian_process", "skopt", "mlflow"):
    # the scheduler works without these modules; a task that needs a missing one reports it
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)

__all__: list[str] = []

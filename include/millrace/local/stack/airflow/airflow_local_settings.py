"""Imported by Airflow under this name, and on the scheduler's path only: loads the heavy packages once.

The scheduler forks the tasks, so each evaluation finds them loaded instead of importing them for 16-20 s.
"""

import contextlib
import importlib

for _name in ("deltalake", "pyarrow.dataset", "sklearn.gaussian_process", "skopt", "mlflow", "great_expectations"):
    # a task that needs what is missing says so itself; the scheduler goes on without
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)

__all__: list[str] = []

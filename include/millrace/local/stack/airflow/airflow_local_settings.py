"""Load the heavy packages once. Airflow imports this file by its name; it is on the scheduler's path only.

The scheduler forks the tasks, so each evaluation finds them loaded instead of importing them for 16-20 s.
"""

import contextlib
import importlib

for _name in ("deltalake", "pyarrow.dataset", "sklearn.gaussian_process", "skopt", "mlflow", "great_expectations"):
    # the scheduler works without these modules; a task that needs a missing one reports it
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)

__all__: list[str] = []

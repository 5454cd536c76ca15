"""What evaluations import: loaded once, in the process that is forked for each of them."""

import contextlib
import importlib
import os

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

for _name in (
    "deltalake",
    "pyarrow.dataset",
    "sklearn.gaussian_process",
    "skopt",
    "great_expectations.expectations",
    "millrace.wiring",
    "millrace.control.loop",
    "millrace.control.quality",
    "millrace.control.spark_plant",
    "millrace.optimizers.registry",
    "millrace.pipelines.catalog",
    "millrace.reporting.tracker",
):
    # an evaluation that needs a missing module reports it
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)

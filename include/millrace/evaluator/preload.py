"""Load modules in a process before others are forked from it, so that none of them has to."""

from __future__ import annotations

import contextlib
import importlib

OF_THE_LOOP = (
    "deltalake",
    "pyarrow.dataset",
    "sklearn.gaussian_process",
    "skopt",
    "millrace.control.loop",
    "millrace.control.quality",
    "millrace.control.spark_plant",
    "millrace.optimizers.registry",
    "millrace.pipelines.catalog",
    "millrace.reporting.tracker",
)
"""What both evaluations and changes import."""


def preload(*more: str) -> None:
    """Import what the loop needs, and more. A missing module is left to the process that needs it, which reports it.

    Args:
        more: Names of further modules.
    """
    for name in (*OF_THE_LOOP, *more):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)

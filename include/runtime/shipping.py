"""Millrace's own modules for Python workers: a driver's workers have neither its path nor its folder."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

PACKAGE = Path(__file__).resolve().parents[1]
NAME = "millrace-modules.zip"


def ship(context: SparkContext) -> None:
    """Let the Python workers of a driver import ``include``; safe to repeat."""
    if any(NAME in name for name in context._python_includes):
        return
    archive = Path(context._temp_dir) / NAME  # Spark's own folder: gone with the application, and not before
    with zipfile.ZipFile(archive, "w") as modules:
        for module in sorted(PACKAGE.rglob("*.py")):
            modules.write(module, module.relative_to(PACKAGE.parent))
    context.addPyFile(str(archive))
    # a worker that Spark starts beside the driver, to prepare a stateful operator, is not given the file
    before = context.environment.get("PYTHONPATH")
    context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(archive), before]))

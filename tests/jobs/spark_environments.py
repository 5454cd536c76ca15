"""Environments with other versions of PySpark and what a driver needs, made on demand and kept in a cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from filelock import FileLock

from millrace.places import REPO
from tests.jobs.attaching import Environment

VARIABLE = "MILLRACE_SPARK_ENVIRONMENTS"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "millrace" / "spark"


def environment(version: str) -> Environment:
    """Return the environment of a version, and download it if it is not there yet.

    Args:
        version: Version of PySpark.
    """
    folder = Path(os.environ.get(VARIABLE, CACHE)) / version
    python, made = folder / "bin" / "python", folder / "made"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not made.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            packages = [f"pyspark=={version}", *driver_packages()]
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
            made.touch()
    (spark,) = folder.glob("lib/python*/site-packages/pyspark")
    return Environment(python, spark)


def driver_packages() -> list[str]:
    """Return the packages of ``millrace[driver]``."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    found: list[str] = project["dependencies"]
    return found

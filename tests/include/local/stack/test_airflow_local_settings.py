"""The modules that Airflow's scheduler loads before it forks tasks."""

from __future__ import annotations

import subprocess
import sys

LOAD = "import millrace.local.stack.airflow.airflow_local_settings as loaded; print(loaded.__name__)"


def test_everything_is_loaded_by_a_process_without_a_main_file() -> None:
    """In such a process pyspark's Connect client assumes a doctest run, and ends it if a package is missing."""
    loading = subprocess.run([sys.executable, "-c", LOAD], check=True, capture_output=True, text=True)
    assert loading.stdout.strip().endswith("airflow_local_settings")

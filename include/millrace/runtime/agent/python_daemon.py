"""Forks an executor's Python workers: with pandas and pyarrow loaded once, a worker starts in a tenth of the time.

Spark starts this module as ``spark.python.daemon.module``.
"""

from __future__ import annotations

import contextlib

from pyspark.daemon import manager

if __name__ == "__main__":
    for name in ("numpy", "pandas", "pyarrow", "pyspark.worker"):
        with contextlib.suppress(ImportError):  # a pipeline's own interpreter may lack them
            __import__(name)
    manager()

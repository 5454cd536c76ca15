"""What JVM options cost executors: batches of a query that computes in the JVM, with two applications taking turns.

Each method is an application with one executor of two cores in its own process. Both are warm before the first round.
The order changes from round to round, so other work on the machine slows both. Processor seconds show what such work
hides.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.record import Record, median
from millrace.environment import spark_env

JOB = Path(__file__).with_name("jvm_bound.py")
DEFAULTS, QUICK_START = "JVM defaults", "quick-start options"
OPTIONS = {DEFAULTS: "", QUICK_START: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
SCENARIO = "JVM-bound query"
ROWS, QUICK_ROWS = 1_500_000, 300_000
ROUNDS, WARM_UP = 10, 6


def run(quick: bool) -> list[Record]:
    """Measure batches with the JVM's default options and with the quick-start options.

    Args:
        quick: Half of the rounds, with a fifth of the rows.
    """
    rounds, rows = (ROUNDS // 2, QUICK_ROWS) if quick else (ROUNDS, ROWS)
    took: dict[str, list[tuple[float, float]]] = {method: [] for method in OPTIONS}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millrace-bench-")))
        spark = _spark_in(folder)
        apps = {method: _Application(options, rows, spark) for method, options in OPTIONS.items()}
        for app in apps.values():
            stack.callback(app.end)
        for number in range(-WARM_UP, rounds):
            for method in apps if number % 2 else reversed(apps):
                measured = apps[method].batch()
                if number >= 0:
                    took[method].append(measured)
    return [record for i, figure in enumerate(("batch", "cpu")) for record in _records(figure, took, i)]


def _records(figure: str, took: dict[str, list[tuple[float, float]]], i: int) -> list[Record]:
    """Return the medians of a figure, and its increase with the quick-start options."""
    seconds = {method: [each[i] for each in values] for method, values in took.items()}
    ratios = [slow / fast for slow, fast in zip(seconds[QUICK_START], seconds[DEFAULTS], strict=True)]
    return [
        *(median("executors", SCENARIO, method, f"{figure}_s", values, "s") for method, values in seconds.items()),
        median("executors", SCENARIO, QUICK_START, f"{figure}_ratio", ratios, "x"),
    ]


def _spark_in(folder: Path) -> Path:
    """Link Spark into a folder: a local cluster keeps its executors' folders in Spark's own folder."""
    spark = folder / "spark"
    spark.mkdir()
    for part in (p for p in spark_env.spark_home().iterdir() if p.name != "work"):
        (spark / part.name).symlink_to(part)
    return spark


class _Application:
    """A warm application that runs a batch on request."""

    def __init__(self, java_options: str, rows: int, spark: Path) -> None:
        unset = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
        inherited = {name: value for name, value in os.environ.items() if name not in unset}
        with (spark.parent / "applications.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(JOB), str(rows), java_options],
                cwd=spark.parent,
                env={**inherited, **spark_env.environment(), "SPARK_HOME": str(spark)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def batch(self) -> tuple[float, float]:
        """Run a batch and return its seconds, and the processor seconds of its executor."""
        assert self._process.stdin and self._process.stdout
        print("batch", file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"The application ended. Run {JOB.name} by hand to see why.")
        took_s, cpu_s = line.split()
        return float(took_s), float(cpu_s)

    def end(self) -> None:
        """End the application."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

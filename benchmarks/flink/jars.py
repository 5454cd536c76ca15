"""The pinned jars of Flink's autoscaler: only those that it loads, eleven jars of 17 MB in total.

The autoscaler's own jar contains newer copies of some of flink-runtime's classes, so it comes first on the class path.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.flink.programs import run
from benchmarks.flink.unavailable import Unavailable
from millrace.environment.jars import SHARE, JarSet
from millrace.local.stack.spark_files import fetch_jars
from millrace.model.errors import MillraceError

FLINK = JarSet("Flink", Path(__file__).with_name("flink_jars.sha256"), SHARE / "flink")
DEADLINE_S = 300.0


def ensure(jars: JarSet) -> None:
    """Fetch missing jars.

    Raises:
        Unavailable: They could not be fetched in time, or a checksum differs from the pinned one.
    """
    jars.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jars.folder, prefix="fetching-") as scratch:
        try:
            fetch_jars(jars, Path(scratch), _run)
        except MillraceError as error:
            raise Unavailable(str(error)) from error


def _run(argv: Sequence[str | Path], env: Mapping[str, str]) -> None:
    run(argv, DEADLINE_S, "Ivy", env)

"""Fetches the five Delta jars through Spark's own Ivy and checks them against the pins."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from include.local.stack import spark_env
from include.model.errors import MillraceError

Run = Callable[[Sequence[str | Path], Mapping[str, str]], None]

# what Delta brings along and Spark's own jars already hold, or local tables never need
ALREADY_THERE = "org.*:*,com.*:*,javax.*:*,commons-*:*,io.airlift:*,io.unitycatalog:*"


def present() -> bool:
    """Whether all pinned jars are in their folder; a jar gets there only after its sum was checked."""
    return all((spark_env.JARS / name).is_file() for name in spark_env.pinned())


def coordinates() -> list[str]:
    """Derive the Maven coordinates from the pinned file names."""
    return [":".join(("io.delta", *name.removesuffix(".jar").rsplit("-", 1))) for name in spark_env.pinned()]


def fetch(scratch: Path, run: Run) -> None:
    """Resolve the jars and move the checked ones to their place.

    Args:
        scratch: Empty folder on the same file system as the jars' place.
        run: Runs a program with extra environment variables, raising ProgramFailed.

    Raises:
        MillraceError: A jar's sum is not the pinned one.
    """
    nothing = scratch / "nothing.py"
    nothing.write_text("", encoding="utf-8")
    run(
        [
            spark_env.spark_submit(),
            "--master=local[1]",
            f"--packages={','.join(coordinates())}",
            f"--exclude-packages={ALREADY_THERE}",
            f"--conf=spark.jars.ivy={scratch / 'ivy'}",
            "--conf=spark.ui.enabled=false",
            nothing,
        ],
        spark_env.environment(),
    )
    spark_env.JARS.mkdir(parents=True, exist_ok=True)
    for name, expected in spark_env.pinned().items():
        resolved = scratch / "ivy" / "jars" / f"io.delta_{name}"
        found = spark_env.digest(resolved) if resolved.is_file() else "none"
        if found != expected:
            raise MillraceError(
                name, found, f"SHA-256 {expected}", "Check which repository Spark's Ivy settings name, then run again."
            )
        resolved.replace(spark_env.JARS / name)
    shutil.rmtree(scratch, ignore_errors=True)

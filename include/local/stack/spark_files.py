"""What set-up makes for Spark: the pinned Delta jars, and the archive of loaded classes (AppCDS).

The jars come through Spark's own Ivy and are checked against the pins; the archive halves the start of a driver.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from include.atomic_file import write_atomically
from include.local.stack import spark_env
from include.local.stack.home import REPO
from include.model.errors import MillraceError

Run = Callable[[Sequence[str | Path], Mapping[str, str]], None]

# what Delta brings along and Spark's own jars already hold, or local tables never need
ALREADY_THERE = "org.*:*,com.*:*,javax.*:*,commons-*:*,io.airlift:*,io.unitycatalog:*"


def jars_present() -> bool:
    """Whether all pinned jars are in their folder; a jar gets there only after its sum was checked."""
    return all((spark_env.JARS / name).is_file() for name in spark_env.pinned())


def coordinates() -> list[str]:
    """Derive the Maven coordinates from the pinned file names."""
    return [":".join(("io.delta", *name.removesuffix(".jar").rsplit("-", 1))) for name in spark_env.pinned()]


def fetch_jars(scratch: Path, run: Run) -> None:
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
        actual = spark_env.digest(resolved) if resolved.is_file() else "none"
        if actual != expected:
            remedy = "Check which repository Spark's Ivy settings name, then run again."
            raise MillraceError(name, actual, f"SHA-256 {expected}", remedy)
        resolved.replace(spark_env.JARS / name)
    shutil.rmtree(scratch, ignore_errors=True)


TRAINING = REPO / "jobs" / "train_archive.py"
# the classes are the same for every compiler and collector, and these two are the cheapest for one short run
TRAINING_OPTIONS = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {spark_env.QUIET_ARCHIVE}"
KEY = spark_env.ARCHIVE.with_suffix(".key")


def archive_key(java_version: str) -> str:
    """Compute what the archive depends on: the Java, Spark's jars and Delta's jars."""
    parts = [java_version]
    for jar in [*sorted((spark_env.spark_home() / "jars").glob("*.jar")), *spark_env.delta_jars()]:
        facts = jar.stat()
        # the JVM itself refuses an archive whose jars have another size or time
        parts.append(f"{jar} {facts.st_size} {facts.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def archive_current(java_version: str) -> bool:
    """Whether the archive fits this Java and these jars."""
    return (
        spark_env.ARCHIVE.is_file() and KEY.is_file() and KEY.read_text(encoding="utf-8") == archive_key(java_version)
    )


def make_archive(java_version: str, scratch: Path, run: Run) -> None:
    """Run the training job once and keep the classes that it loaded.

    Args:
        java_version: The full version string.
        scratch: Empty folder on the same file system as the archive.
        run: Runs a program with extra environment variables, raising ProgramFailed.
    """
    dumped = scratch / "spark.jsa"
    run(
        [
            spark_env.spark_submit(),
            "--master=local[2]",
            f"--driver-class-path={spark_env.class_path()}",
            f"--driver-java-options=-XX:ArchiveClassesAtExit={dumped} {TRAINING_OPTIONS}",
            "--conf=spark.ui.enabled=false",
            "--conf=spark.driver.host=127.0.0.1",
            TRAINING,
            scratch / "tables",
        ],
        spark_env.environment(),
    )
    KEY.unlink(missing_ok=True)
    dumped.replace(spark_env.ARCHIVE)
    write_atomically(KEY, archive_key(java_version), 0o644)

"""Makes the archive of loaded classes (AppCDS) that halves the start of a Spark driver."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from include.local.stack import spark_env
from include.local.stack.files import write_atomically
from include.local.stack.home import REPO

Run = Callable[[Sequence[str | Path], Mapping[str, str]], None]

TRAINING = REPO / "jobs" / "train_archive.py"
# the classes are the same for every compiler and collector, and these two are the cheapest for one short run
TRAINING_OPTIONS = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {spark_env.QUIET_ARCHIVE}"
KEY = spark_env.ARCHIVE.with_suffix(".key")


def key(java_version: str) -> str:
    """Compute what the archive depends on: the Java, Spark's jars and Delta's jars.

    Args:
        java_version: The full version string.
    """
    parts = [java_version]
    for jar in [*sorted((spark_env.spark_home() / "jars").glob("*.jar")), *spark_env.delta_jars()]:
        facts = jar.stat()
        # the JVM itself refuses an archive whose jars have another size or time
        parts.append(f"{jar} {facts.st_size} {facts.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def current(java_version: str) -> bool:
    """Whether the archive fits this Java and these jars."""
    return spark_env.ARCHIVE.is_file() and KEY.is_file() and KEY.read_text(encoding="utf-8") == key(java_version)


def make(java_version: str, scratch: Path, run: Run) -> None:
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
    write_atomically(KEY, key(java_version), 0o644)

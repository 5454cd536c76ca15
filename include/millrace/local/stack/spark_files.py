"""What set-up makes for Spark: the pinned jars, and the archive of loaded classes (AppCDS).

Spark's own Ivy fetches the jars without their dependencies: Spark already has them, or the set includes them. A jar is
moved into place only after its checksum was verified. The archive halves a driver's start time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from millrace.atomic_file import write_atomically
from millrace.environment import spark_env
from millrace.environment.jars import JarSet, digest
from millrace.model.errors import MillraceError
from millrace.places import PACKAGE

Run = Callable[[Sequence[str | Path], Mapping[str, str]], None]
"""Runs a program with extra environment variables; raises ProgramFailed."""

MAVEN_CENTRAL = "https://repo1.maven.org/maven2/"
MIRROR_VARIABLE = "DEFAULT_ARTIFACT_REPOSITORY"
"""Spark's own variable for a repository that replaces Maven Central."""


def fetch_jars(jars: JarSet, scratch: Path, run: Run) -> None:
    """Fetch the missing jars of a set.

    Args:
        jars: The set.
        scratch: Empty folder on the same file system as the jars' folder.
        run: Runs a program.

    Raises:
        MillraceError: A jar's checksum is not the pinned one.
    """
    wanted = {jar: jars.pinned()[jar] for jar in jars.missing()}
    if not wanted:
        return
    program, settings = scratch / "nothing.py", scratch / "ivy.xml"
    program.write_text("", encoding="utf-8")
    settings.write_text(_ivy_settings(os.environ.get(MIRROR_VARIABLE) or MAVEN_CENTRAL), encoding="utf-8")
    run(
        [
            spark_env.spark_submit(),
            "--master=local[1]",
            f"--packages={','.join(coordinates for coordinates, _ in wanted.values())}",
            f"--conf=spark.jars.ivySettings={settings}",
            f"--conf=spark.jars.ivy={scratch / 'ivy'}",
            "--conf=spark.ui.enabled=false",
            program,
        ],
        spark_env.environment(),
    )
    jars.folder.mkdir(parents=True, exist_ok=True)
    for jar, (coordinates, pin) in wanted.items():
        resolved = scratch / "ivy" / "jars" / f"{coordinates.split(':')[0]}_{jar.name}"
        actual = digest(resolved) if resolved.is_file() else "none"
        if actual != pin:
            remedy = f"Check which repository {MIRROR_VARIABLE} names, then run again."
            raise MillraceError(jar.name, actual, f"SHA-256 {pin}", remedy)
        resolved.replace(jar)


def _ivy_settings(root: str) -> str:
    """Return settings with which Ivy reads no POM and downloads only the named jars."""
    resolver = f'<ibiblio name="maven" m2compatible="true" usepoms="false" root={quoteattr(root)}/>'
    return f'<ivysettings><settings defaultResolver="maven"/><resolvers>{resolver}</resolvers></ivysettings>'


TRAINING = PACKAGE / "jobs" / "train_archive.py"
# the classes do not depend on compiler and collector, and these two are the cheapest for one short run
TRAINING_OPTIONS = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {spark_env.QUIET_ARCHIVE}"
KEY = spark_env.ARCHIVE.with_suffix(".key")
FAILED = "failed"


def archive_key(java_version: str) -> str:
    """Return a key of what the archive depends on: the Java, Spark's jars and Delta's jars."""
    parts = [java_version]
    for jar in [*sorted((spark_env.spark_home() / "jars").glob("*.jar")), *spark_env.delta_jars()]:
        facts = jar.stat()
        # the JVM itself rejects an archive if a jar's size or time has changed
        parts.append(f"{jar} {facts.st_size} {facts.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def archive_settled(java_version: str, again: bool = False) -> bool:
    """Return whether the archive fits this Java and these jars, or could not be made for them.

    Args:
        java_version: The full version string.
        again: Whether an archive that could not be made counts as missing.
    """
    noted = KEY.read_text(encoding="utf-8") if KEY.is_file() else ""
    key = archive_key(java_version)
    return (noted == key and spark_env.ARCHIVE.is_file()) or (not again and noted == f"{FAILED} {key}")


def note_failure(java_version: str) -> None:
    """Record that no archive could be made, so later cluster starts do not try again."""
    spark_env.ARCHIVE.unlink(missing_ok=True)
    write_atomically(KEY, f"{FAILED} {archive_key(java_version)}", 0o644)


def make_archive(java_version: str, scratch: Path, run: Run) -> None:
    """Run the training job once and store the classes that it loaded.

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

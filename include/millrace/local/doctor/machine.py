"""What Millrace needs of the machine: Python, Java, Spark with Delta's jars, a home with room, a lake, a clock."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import uuid
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from millrace.lake.location import OPTIONS, OPTIONS_VARIABLE, Location
from millrace.lake.store import Lake
from millrace.lake.table_errors import reason
from millrace.local.doctor.finding import Finding, ok, problem, warning
from millrace.local.stack import java as jre
from millrace.local.stack import spark_env
from millrace.local.stack.home import Home
from millrace.local.stack.jars import CONNECTORS, DELTA
from millrace.places import IN_CHECKOUT

OLDEST_PYTHON = (3, 11)
VERSIONS = {"apache-airflow": ((3, 3), (4, 0)), "pyspark": ((4, 2), (4, 3))}
"""From which on, and below which: those of pyproject.toml."""
LEAST_GIB, ENOUGH_GIB = 1.0, 5.0
"""Below the first a driver or the lake may fail today; below the second within days."""
TABLES = ("telemetry/batches", "control/decisions", "control/deployments")
CLOCK_TOLERANCE_S = 5.0


def python() -> Finding:
    """Return whether this interpreter is new enough."""
    found = f"Python {platform.python_version()} in {sys.prefix}"
    if sys.version_info < OLDEST_PYTHON:
        return problem("python", f"{found} is too old.", "Install Python 3.11 or newer and run again.")
    return ok("python", f"{found}.")


def packages() -> Finding:
    """Return whether Airflow and Spark are of versions that Millrace works with."""
    found = []
    for name, (least, below) in VERSIONS.items():
        text = metadata.version(name)
        if not least <= tuple(int(part) for part in text.split(".")[:2]) < below:
            allowed = f"{'.'.join(map(str, least))} to below {'.'.join(map(str, below))}"
            remedy = f'Run pip install "millrace" again in {sys.prefix}, or ./millrace setup in a checkout.'
            return problem("packages", f"{name} {text} is installed; Millrace works with {allowed}.", remedy)
        found.append(f"{name} {text}")
    return ok("packages", f"{' and '.join(found)}.")


def java() -> Finding:
    """Return whether there is a Java that Spark can run on."""
    found, old = jre.find()
    if found is None:
        error = jre.missing(old)
        return problem("java", f"Java {error.value}; Spark needs {error.allowed}.", error.remedy)
    return ok("java", f"Java {found.version} in {found.home}.")


def spark() -> Finding:
    """Return whether Spark and the pinned jars of Delta are there, unchanged."""
    missing = DELTA.missing()
    if IN_CHECKOUT and not DELTA.folder.is_dir():
        return ok("jars", f"Spark in {spark_env.spark_home()}; the first ./millrace up fetches the jars of Delta.")
    if missing:
        names = ", ".join(jar.name for jar in missing)
        return problem("jars", f"{names} is missing in {DELTA.folder}.", "Run ./millrace setup.")
    for jars in (DELTA, *CONNECTORS.values()):
        if changed := [jar.name for jar in jars.changed()]:
            remedy = f"Delete it in {jars.folder}, then run ./millrace setup."
            return problem("jars", f"{', '.join(changed)} is not the file that was pinned.", remedy)
    return ok("jars", f"Spark in {spark_env.spark_home()}, and {len(DELTA.pinned())} jars of Delta as pinned.")


def disk(home: Home) -> Finding:
    """Return whether there is room for the home."""
    free_gib = shutil.disk_usage(_existing(home.root)).free / 2**30
    told, remedy = (
        f"{free_gib:.1f} GiB are free for {home.root}",
        "Free space, or name a home elsewhere: MILLRACE_HOME.",
    )
    if free_gib < LEAST_GIB:
        return problem("disk", f"Only {told}.", remedy)
    return warning("disk", f"Only {told}.", remedy) if free_gib < ENOUGH_GIB else ok("disk", f"{told}.")


def lake(home: Home, location: Location) -> Finding:
    """Return whether home and lake can be written, or made."""
    if location.folder is None:
        return _bucket(location)
    for folder in (home.root, home.run, home.logs, location.folder):
        nearest = _existing(folder)
        try:
            with tempfile.TemporaryFile(dir=nearest):
                pass
        except OSError as error:
            remedy = f"Give {os.environ.get('USER', 'yourself')} the folder, or name another home: MILLRACE_HOME."
            return problem("lake", f"{nearest} cannot be written: {error.strerror}.", remedy)
    made = "can be written" if location.folder.is_dir() else "is not made yet; ./millrace up makes it"
    return ok("lake", f"{location} {made}.")


def _bucket(location: Location) -> Finding:
    """Return whether a bucket takes a file and lets it go again."""
    name = f".doctor-{uuid.uuid4()}"
    try:
        with location.files.open_output_stream(name) as stream:
            stream.write(b"")
        location.files.delete_file(name)
    except OSError as error:
        remedy = f"Check bucket, keys and rights: {', '.join(OPTIONS)}, or the file that {OPTIONS_VARIABLE} names."
        return problem("lake", f"{location} cannot be written: {reason(error)}.", remedy)
    return ok("lake", f"{location} can be written.")


def clock(tables: Lake, now: datetime | None = None) -> Finding:
    """Return whether the clock is behind what was committed."""
    now = now or datetime.now(UTC)
    times = [time for table in TABLES if (time := tables.committed_at(table)) is not None]
    ahead_s = (max(times) - now).total_seconds() if times else 0.0
    if ahead_s > CLOCK_TOLERANCE_S:
        told = f"The newest rows of the lake are {ahead_s:.0f} s in the future: the clock was set back, or is wrong."
        return problem("clock", told, "Set the clock (timedatectl status); evaluations are right once it is past.")
    return ok("clock", f"{now:%Y-%m-%d %H:%M:%S} UTC, and nothing in the lake is newer.")


def _existing(folder: Path) -> Path:
    """Return a folder, or the nearest above it that exists."""
    return next(f for f in (folder, *folder.parents) if f.exists())

"""Checks of the machine: Python, Java, Spark with Delta's jars, disk space, the lake and the clock."""

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

from millrace.environment import spark_env
from millrace.environment.home import Home
from millrace.environment.jars import CONNECTORS, DELTA
from millrace.lake.location import OPTIONS_VARIABLE, Location
from millrace.lake.object_stores import ObjectStore
from millrace.lake.store import Lake
from millrace.lake.table_errors import reason
from millrace.local.doctor.finding import Finding, ok, problem, warning
from millrace.local.stack import java as jre
from millrace.places import IN_CHECKOUT

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
VERSIONS = {"apache-airflow": ((3, 3), (4, 0)), "pyspark": ((4, 2), (4, 3))}
"""Lowest allowed version, and the first version that is too new; as in pyproject.toml."""
LEAST_GIB, ENOUGH_GIB = 1.0, 5.0
"""Below the first, a driver or the lake may fail today; below the second, within days."""
TABLES = ("telemetry/batches", "control/decisions", "control/deployments")
CLOCK_TOLERANCE_S = 5.0


def python() -> Finding:
    """Check that Millrace supports this interpreter."""
    found = f"Python {platform.python_version()} in {sys.prefix}"
    if not OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON:
        wrong = "old" if sys.version_info[:2] < OLDEST_PYTHON else "new"
        return problem("python", f"{found} is too {wrong}.", "Install Python 3.11 to 3.13 and run again.")
    return ok("python", f"{found}.")


def packages() -> Finding:
    """Check that Millrace supports the installed versions of Airflow and Spark."""
    found = []
    for name, (least, below) in VERSIONS.items():
        text = metadata.version(name)
        if not least <= tuple(int(part) for part in text.split(".")[:2]) < below:
            allowed = f"{'.'.join(map(str, least))} to below {'.'.join(map(str, below))}"
            remedy = f'Run pip install "millrace[airflow]" again in {sys.prefix}, or ./millrace setup in a checkout.'
            return problem("packages", f"{name} {text} is installed; Millrace needs {allowed}.", remedy)
        found.append(f"{name} {text}")
    return ok("packages", f"{' and '.join(found)}.")


def java() -> Finding:
    """Check that there is a Java that Spark can run on."""
    found, old = jre.find()
    if found is None:
        error = jre.missing(old)
        return problem("java", f"Java {error.value}; Spark needs {error.allowed}.", error.remedy)
    return ok("java", f"Java {found.version} in {found.home}.")


def spark() -> Finding:
    """Check that Spark and the pinned jars of Delta are there and unchanged."""
    missing = DELTA.missing()
    if IN_CHECKOUT and not DELTA.folder.is_dir():
        return ok("jars", f"Spark in {spark_env.spark_home()}; the first ./millrace up downloads the jars of Delta.")
    if missing:
        names = ", ".join(jar.name for jar in missing)
        return problem("jars", f"Missing in {DELTA.folder}: {names}.", "Run ./millrace setup.")
    for jars in (DELTA, *CONNECTORS.values()):
        if changed := [jar.name for jar in jars.changed()]:
            remedy = f"Delete it in {jars.folder}, then run ./millrace setup."
            return problem("jars", f"Changed since it was pinned: {', '.join(changed)}.", remedy)
    return ok("jars", f"Spark in {spark_env.spark_home()}; {len(DELTA.pinned())} pinned jars of Delta.")


def disk(home: Home) -> Finding:
    """Check that the home's disk has free space."""
    free_gib = shutil.disk_usage(_existing(home.root)).free / 2**30
    told, remedy = (
        f"{free_gib:.1f} GiB are free in {home.root}",
        "Free space, or set MILLRACE_HOME to another disk.",
    )
    if free_gib < LEAST_GIB:
        return problem("disk", f"Only {told}.", remedy)
    return warning("disk", f"Only {told}.", remedy) if free_gib < ENOUGH_GIB else ok("disk", f"{told}.")


def lake(home: Home, location: Location) -> Finding:
    """Check that the home and the lake can be written or created."""
    if location.store is not None:
        return _bucket(location, location.store)
    own = Path(location.uri)
    for folder in (home.root, home.run, home.logs, own):
        nearest = _existing(folder)
        try:
            with tempfile.TemporaryFile(dir=nearest):
                pass
        except OSError as error:
            remedy = f"Make {os.environ.get('USER', 'yourself')} its owner, or set MILLRACE_HOME to another folder."
            return problem("lake", f"{nearest} cannot be written: {error.strerror}.", remedy)
    made = "can be written" if own.is_dir() else "does not exist yet; ./millrace up creates it"
    return ok("lake", f"{location} {made}.")


def _bucket(location: Location, store: ObjectStore) -> Finding:
    """Check that a file can be written to a bucket and deleted again."""
    name = f".doctor-{uuid.uuid4()}"
    try:
        location.files.write(name, b"")
        location.files.delete(name)
    except OSError as error:
        options = ", ".join(store.options)
        remedy = f"Check bucket, keys and rights: {options}, or the file named in {OPTIONS_VARIABLE}."
        return problem("lake", f"{location} cannot be written: {reason(error)}.", remedy)
    return ok("lake", f"{location} can be written.")


def clock(tables: Lake, now: datetime | None = None) -> Finding:
    """Check that the clock is not behind the newest commits."""
    now = now or datetime.now(UTC)
    times = [time for table in TABLES if (time := tables.committed_at(table)) is not None]
    ahead_s = (max(times) - now).total_seconds() if times else 0.0
    if ahead_s > CLOCK_TOLERANCE_S:
        told = f"The newest rows of the lake are {ahead_s:.0f} s in the future: the clock is wrong or was set back."
        return problem("clock", told, "Set the clock (timedatectl status). Evaluations are wrong until it catches up.")
    return ok("clock", f"{now:%Y-%m-%d %H:%M:%S} UTC; nothing in the lake is newer.")


def _existing(folder: Path) -> Path:
    """Return a folder, or its nearest parent that exists."""
    return next(f for f in (folder, *folder.parents) if f.exists())

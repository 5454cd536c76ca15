"""Fetches the jars of Flink's autoscaler with the machine's own Maven and checks them against the pins.

Only what the autoscaler loads is taken, not what Flink brings along: eleven jars, 17 MB. The pins' order is the class
path's: the autoscaler's jar holds newer copies of some of flink-runtime's classes and must come first.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from benchmarks.flink.programs import run
from benchmarks.flink.unavailable import Unavailable

PINS = Path(__file__).with_name("flink_jars.sha256")
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
DEADLINE_S = 300.0


def pinned() -> dict[str, str]:
    """Read the jars' Maven coordinates (``group:artifact:version``), in class path order, and their SHA-256 sums."""
    lines = PINS.read_text(encoding="utf-8").split("\n")
    return {coordinates: digest for digest, coordinates in (line.split() for line in lines if line.strip())}


def class_path(folder: Path) -> list[Path]:
    """List where the jars belong, in class path order.

    Args:
        folder: The jars' folder.
    """
    return [folder / _name(coordinates) for coordinates in pinned()]


def ensure(folder: Path) -> None:
    """Fetch the jars unless all are in their folder; one gets there only after its sum was checked.

    Args:
        folder: The jars' folder; made if missing.

    Raises:
        Unavailable: There is no Maven, it could not fetch them in time, or a sum is not the pinned one.
    """
    if all(jar.is_file() for jar in class_path(folder)):
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("mvn is not on PATH and Flink's jars have not been fetched yet")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="fetching-") as scratch:
        project = Path(scratch, "pom.xml")
        project.write_text(_project(), encoding="utf-8")
        run([maven, "-B", "-q", "-f", project, COPY, f"-DoutputDirectory={scratch}"], DEADLINE_S, "Maven")
        for coordinates, expected in pinned().items():
            _keep(Path(scratch, _name(coordinates)), folder, expected)


def _keep(fetched: Path, folder: Path, expected: str) -> None:
    found = hashlib.sha256(fetched.read_bytes()).hexdigest() if fetched.is_file() else "none"
    if found != expected:
        raise Unavailable(f"Maven's {fetched.name} has SHA-256 {found}, pinned is {expected}")
    fetched.replace(folder / fetched.name)


def _name(coordinates: str) -> str:
    _, artifact, version = coordinates.split(":")
    return f"{artifact}-{version}.jar"


def _project() -> str:
    """Write a Maven project that depends on the pinned jars and on nothing that they depend on."""
    alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{alone}</dependency>"
        for group, artifact, version in (coordinates.split(":") for coordinates in pinned())
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>millrace</groupId><artifactId>flink-peer</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )

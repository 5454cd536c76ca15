"""Find a Java that Spark can run on, and install one if this is allowed without asking."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from millrace.model.errors import MillraceError

OLDEST = 17
PACKAGE = "openjdk-17-jre-headless"


@dataclass(frozen=True)
class Java:
    """A Java installation.

    Args:
        home: JAVA_HOME for this installation.
        version: Its full version string, such as ``17.0.15``.
    """

    home: Path
    version: str

    @property
    def major(self) -> int:
        """The feature release: 8, 11, 17, 21, ..."""
        return major(self.version)


def major(version: str) -> int:
    """Read the feature release from a Java version string.

    Returns:
        The feature release; 0 if the string is not a Java version.
    """
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match.group(1)) if match else 0


def candidates() -> Iterator[Path]:
    """Yield the java programs to try: from JAVA_HOME, on PATH, then from system packages."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if program := shutil.which("java"):
        yield Path(program)
    yield from sorted(Path("/usr/lib/jvm").glob("*/bin/java"))


def inspect(program: Path) -> Java | None:
    """Ask a java program for its version and home.

    Returns:
        The installation; None if it does not run.
    """
    if not program.is_file():
        return None
    try:
        # the only way to learn both without guessing about links and wrapper scripts
        output = subprocess.run(
            [str(program), "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    home = re.search(r"^\s*java\.home = (.+)$", output, re.M)
    version = re.search(r"^\s*java\.version = (\S+)$", output, re.M)
    return Java(Path(home.group(1).strip()), version.group(1)) if home and version else None


def find() -> tuple[Java | None, Java | None]:
    """Look for a recent enough Java.

    Returns:
        The Java to use or None, and the newest one that is too old or None.
    """
    old: Java | None = None
    for program in candidates():
        java = inspect(program)
        if java and java.major >= OLDEST:
            return java, old
        if java and (old is None or java.major > old.major):
            old = java
    return None, old


def missing(old: Java | None) -> MillraceError:
    """Return the error that names the package to install."""
    return MillraceError(
        "java",
        old.version if old else "none",
        f"version {OLDEST} or newer",
        f"Install {PACKAGE} (or any JRE {OLDEST}+) and run again. JAVA_HOME takes precedence.",
    )


def may_install() -> bool:
    """Return whether system packages can be installed without asking: as root on Debian or Ubuntu."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None

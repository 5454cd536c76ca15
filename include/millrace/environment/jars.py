"""Sets of pinned jars: Delta's, which every driver gets, and those of connectors."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

from millrace.model.errors import MillraceError
from millrace.places import IN_CHECKOUT, REPO, home_folder

VENV = REPO / ".venv" if IN_CHECKOUT else Path(sys.prefix)
"""The environment: the checkout's own, or the one that Millrace was installed into."""
SHARE = VENV / "share" / "millrace" if IN_CHECKOUT else home_folder() / "share"
"""Folder for the results of setup: in the checkout's environment, or in the home of an installed Millrace."""


@dataclass(frozen=True)
class JarSet:
    """Jars that belong together.

    Attributes:
        title: Readable name.
        pins: File of SHA-256 sums and Maven coordinates (``group:artifact:version``), in class path order.
        folder: Folder of the jars.
    """

    title: str
    pins: Path
    folder: Path

    def pinned(self) -> dict[Path, tuple[str, str]]:
        """Return each jar's coordinates and sum, in class path order."""
        lines = (line.split() for line in self.pins.read_text(encoding="utf-8").splitlines() if line.strip())
        return {self.folder / _name(coordinates): (coordinates, digest) for digest, coordinates in lines}

    def missing(self) -> list[Path]:
        """Return the jars that are missing."""
        return [jar for jar in self.pinned() if not jar.is_file()]

    def changed(self) -> list[Path]:
        """Return the jars that differ from the pinned files."""
        return [jar for jar, (_, pin) in self.pinned().items() if jar.is_file() and digest(jar) != pin]

    def paths(self) -> list[Path]:
        """Return the jars in class path order.

        Raises:
            MillraceError: A jar is missing.
        """
        if missing := self.missing():
            raise MillraceError("jars", missing[0].name, "installed jars", "Run ./millrace setup.")
        return list(self.pinned())


def digest(jar: Path) -> str:
    """Compute a file's SHA-256 as hexadecimal text."""
    return hashlib.sha256(jar.read_bytes()).hexdigest()


def _name(coordinates: str) -> str:
    _, artifact, version = coordinates.split(":")
    return f"{artifact}-{version}.jar"


DELTA = JarSet("Delta", Path(__file__).with_name("delta_jars.sha256"), SHARE / "jars")
CONNECTORS = {"kafka": JarSet("Kafka", Path(__file__).with_name("kafka_jars.sha256"), SHARE / "kafka")}
"""Sets by the connector's name in a spec."""

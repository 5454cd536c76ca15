"""Prepare the peer: fetch jars and compile the harness, both kept for next time."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from benchmarks.flink import jars
from benchmarks.flink.programs import run
from benchmarks.flink.unavailable import Unavailable
from millrace.local.stack import java

SOURCES = Path(__file__).with_name("java")
MAIN = "millrace.flink.Harness"
COMPILE_S = 120.0
# small and steady: the autoscaler needs little, and the benchmark's own work shares the machine
OPTIONS = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def command() -> list[str]:
    """Prepare the harness if necessary, and return the command that starts it.

    The first call on a machine fetches 17 MB and compiles, some 10 to 60 s; later calls take well under 1 s.

    Raises:
        Unavailable: Java or javac is missing, or no registry can be reached.
    """
    found, old = java.find()
    if found is None:
        raise Unavailable(f"no Java {java.OLDEST} or newer here" + (f", only {old.version}" if old else ""))
    classes = jars.FLINK.folder / f"classes-{_digest()}"
    if not classes.is_dir():
        # checked first: without a compiler, fetching is pointless
        compiler = _compiler()
        jars.ensure(jars.FLINK)
        _compile(compiler, classes)
    jars.ensure(jars.FLINK)
    path = os.pathsep.join(map(str, (classes, *jars.FLINK.paths())))
    return [str(found.home / "bin" / "java"), *OPTIONS, "-cp", path, MAIN]


def _compiler() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("javac", path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which("javac")
    if found is None:
        raise Unavailable("javac is neither in JAVA_HOME nor on PATH: a JDK is needed, a JRE is not enough")
    return found


def _sources() -> list[Path]:
    return sorted(SOURCES.rglob("*.java"))


def _digest() -> str:
    """Return a digest of the sources, so another version of the harness or of Flink is compiled again."""
    whole = hashlib.sha256()
    for path in (jars.FLINK.pins, *_sources()):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:16]


def _compile(compiler: str, classes: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jars.FLINK.folder, prefix="compiling-") as scratch:
        out = Path(scratch, "classes")
        path = os.pathsep.join(map(str, jars.FLINK.paths()))
        run([compiler, "--release", str(java.OLDEST), "-d", out, "-cp", path, *_sources()], COMPILE_S, "javac")
        try:
            out.rename(classes)
        except OSError:
            # another process compiled the same classes first
            if not classes.is_dir():
                raise

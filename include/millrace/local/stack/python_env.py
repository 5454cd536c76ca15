"""Makes the virtual environment and installs the lock into it."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from millrace.local.stack import java
from millrace.local.stack.progress import ProgramFailed
from millrace.model.errors import MillraceError

BUILD_LOCK = Path(__file__).with_name("build.lock")
"""Versions of what source distributions are built with."""
Run = Callable[[Sequence[str | Path]], None]


def run_with(venv: Path, lock: Path) -> list[str]:
    """Return the words before a command whose programs have a lock of their own; the first run fetches them.

    Args:
        venv: The environment that has uv.
        lock: The compiled lock.
    """
    return [str(venv / "bin" / "uv"), "run", "--quiet", "--no-project", "--with-requirements", str(lock)]


def stanza(lock: str, package: str) -> str:
    """Cut one package with its hashes out of a compiled lock.

    Args:
        lock: The lock's text.
        package: Its normalised name.

    Returns:
        The requirement and its hashes, in pip's own form.
    """
    match = re.search(rf"^{re.escape(package)}==(?:.*\\\n)*.*\n", lock, re.M)
    if not match:
        raise MillraceError("requirements.lock", package, "a lock that pins it", "Compile the lock again.")
    return match.group(0)


def usable(venv: Path) -> bool:
    """Whether a folder is a virtual environment whose interpreter still exists."""
    return (venv / "bin" / "python").exists() and (venv / "pyvenv.cfg").is_file()


def discard(venv: Path) -> None:
    """Remove an environment; its name is free at once, however long the removal takes."""
    discarded = venv.with_name(venv.name + ".discarded")
    shutil.rmtree(discarded, ignore_errors=True)
    if venv.exists():
        venv.rename(discarded)
        shutil.rmtree(discarded, ignore_errors=True)


def create(venv: Path, run: Run, say: Callable[[str], None]) -> None:
    """Make an empty virtual environment in a folder that holds none.

    Args:
        venv: Its folder.
        run: Runs a program, raising ProgramFailed.
        say: Tells a person what else is installed.

    Raises:
        MillraceError: The system's Python cannot make one and the missing package may not be installed unasked.
    """
    if not importlib.util.find_spec("ensurepip") or not importlib.util.find_spec("venv"):
        _install_venv_module(run, say)
    # a new process, because this one has looked for ensurepip before it was installed
    run([sys.executable, "-m", "venv", venv])


def _install_venv_module(run: Run, say: Callable[[str], None]) -> None:
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    if not java.may_install():
        raise MillraceError(
            "python", sys.executable, "a Python with the venv module", f"Install {package} and run again."
        )
    say(f"  installing the system package {package}, which this Python lacks")
    run(["apt-get", "update"])
    run(["apt-get", "install", "-y", "--no-install-recommends", package])


def install(venv: Path, lock: Path, scratch: Path, run: Run, say: Callable[[str], None]) -> None:
    """Bring an environment to exactly what the lock says.

    uv does it in seconds, and pip does it where uv cannot: a mirror, a proxy or a certificate that only pip
    was told about.

    Args:
        venv: The environment.
        lock: The compiled lock, with hashes.
        scratch: Folder for a temporary file.
        run: Runs a program, raising ProgramFailed.
        say: Tells a person that pip had to do it.

    Raises:
        ProgramFailed: Neither could.
    """
    python = venv / "bin" / "python"
    if not list(venv.glob("lib/python*/site-packages/pip/__main__.py")):
        run([python, "-m", "ensurepip"])
    only_uv = scratch / "uv.lock"
    only_uv.write_text(stanza(lock.read_text(encoding="utf-8"), "uv"), encoding="utf-8")
    run([*_pip(venv), "-r", only_uv])
    only_uv.unlink()
    _run_uv(venv, "sync", ["--require-hashes", lock], lock, run, say)


def add(venv: Path, lock: Path, run: Run, say: Callable[[str], None]) -> None:
    """Add what a lock says to an environment that has uv, as ``install`` does it.

    Args:
        venv: The environment.
        lock: The compiled lock, with hashes.
        run: Runs a program, raising ProgramFailed.
        say: Tells a person that pip had to do it.

    Raises:
        ProgramFailed: Neither could.
    """
    _run_uv(venv, "install", ["--no-deps", "--require-hashes", "-r", lock], lock, run, say)


def _run_uv(
    venv: Path, command: str, options: Sequence[str | Path], lock: Path, run: Run, say: Callable[[str], None]
) -> None:
    try:
        where: list[str | Path] = ["--python", venv / "bin" / "python", "--build-constraint", BUILD_LOCK]
        run([venv / "bin" / "uv", "pip", command, *where, *options])
    except ProgramFailed:
        say("  uv could not install the packages; pip goes on, which takes longer")
        run([*_pip(venv), "-r", lock])


def _pip(venv: Path) -> list[str | Path]:
    # a lock is whole: of what packages want, some is left out on purpose
    options = ("--disable-pip-version-check", "--require-hashes", "--no-deps")
    return [venv / "bin" / "python", "-m", "pip", "install", *options]


def add_sources(venv: Path, sources: Path) -> None:
    """Let the environment's Python import from a folder, however it is started.

    Args:
        venv: The environment.
        sources: The folder.
    """
    for packages in venv.glob("lib/python*/site-packages"):
        (packages / "millrace.pth").write_text(f"{sources}\n", encoding="utf-8")

"""Create the virtual environment and install the lock into it."""

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
"""Pinned versions of build requirements for source distributions."""
Run = Callable[[Sequence[str | Path]], None]


def run_with(venv: Path, lock: Path) -> list[str]:
    """Return the command prefix that runs programs with their own lock; the first run fetches them.

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
        raise MillraceError("requirements.lock", package, "a lock that pins this package", "Compile the lock again.")
    return match.group(0)


def usable(venv: Path) -> bool:
    """Return whether a folder is a virtual environment whose interpreter still exists."""
    return (venv / "bin" / "python").exists() and (venv / "pyvenv.cfg").is_file()


def discard(venv: Path) -> None:
    """Remove an environment. Its name is free immediately, however long the removal takes."""
    discarded = venv.with_name(venv.name + ".discarded")
    shutil.rmtree(discarded, ignore_errors=True)
    if venv.exists():
        venv.rename(discarded)
        shutil.rmtree(discarded, ignore_errors=True)


def create(venv: Path, run: Run, say: Callable[[str], None]) -> None:
    """Create an empty virtual environment in a folder that has none.

    Args:
        venv: Its folder.
        run: Runs a program, raising ProgramFailed.
        say: Reports what else is installed.

    Raises:
        MillraceError: The system's Python cannot create one, and installing the missing package needs permission.
    """
    if not importlib.util.find_spec("ensurepip") or not importlib.util.find_spec("venv"):
        _install_venv_module(run, say)
    # a new process, because this one looked for ensurepip before it was installed
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
    """Install exactly the packages of a lock into an environment.

    uv takes seconds. If uv fails, pip does it, because a mirror, a proxy or a certificate may be configured only for
    pip.

    Args:
        venv: The environment.
        lock: The compiled lock, with hashes.
        scratch: Folder for a temporary file.
        run: Runs a program, raising ProgramFailed.
        say: Reports that pip was needed.

    Raises:
        ProgramFailed: Both failed.
    """
    python = venv / "bin" / "python"
    if not list(venv.glob("lib/python*/site-packages/pip/__main__.py")):
        run([python, "-m", "ensurepip"])
    only_uv = scratch / "uv.lock"
    only_uv.write_text(stanza(lock.read_text(encoding="utf-8"), "uv"), encoding="utf-8")
    run([*_pip(venv), "-r", only_uv])
    only_uv.unlink()
    # an executor's Python starts in a third of the time, also where PYTHONDONTWRITEBYTECODE is set, as in images
    _run_uv(venv, "sync", ["--compile-bytecode", "--require-hashes", lock], lock, run, say)


def add(venv: Path, lock: Path, run: Run, say: Callable[[str], None]) -> None:
    """Add the packages of a lock to an environment that has uv, in the same way as ``install``.

    Args:
        venv: The environment.
        lock: The compiled lock, with hashes.
        run: Runs a program, raising ProgramFailed.
        say: Reports that pip was needed.

    Raises:
        ProgramFailed: Both failed.
    """
    _run_uv(venv, "install", ["--no-deps", "--require-hashes", "-r", lock], lock, run, say)


def _run_uv(
    venv: Path, command: str, options: Sequence[str | Path], lock: Path, run: Run, say: Callable[[str], None]
) -> None:
    try:
        where: list[str | Path] = ["--python", venv / "bin" / "python", "--build-constraint", BUILD_LOCK]
        run([venv / "bin" / "uv", "pip", command, *where, *options])
    except ProgramFailed:
        say("  uv could not install the packages; continuing with pip, which takes longer")
        run([*_pip(venv), "-r", lock])


def _pip(venv: Path) -> list[str | Path]:
    # the lock is complete: some dependencies of its packages are left out on purpose
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

"""Set up a fresh clone: packages for all commands; Java, jars and class archive for commands that use Spark.

The launcher installs the packages. Commands that start Spark call :func:`ensure_spark`.

Secrets belong to a home, not to this folder or an image made of it: ``up`` generates them. If Millrace was installed
into an environment, setup does not change that environment.

Setup skips steps that are done, and no step leaves half a result, so the next run completes an interrupted setup.
Only the standard library: this runs before the environment exists.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from millrace.atomic_file import write_atomically
from millrace.environment import spark_env
from millrace.environment.jars import CONNECTORS, DELTA, SHARE, VENV, JarSet
from millrace.local.stack import java, python_env, spark_files
from millrace.local.stack.progress import ProgramFailed, run, say, step
from millrace.model.errors import MillraceError
from millrace.places import IN_CHECKOUT, REPO, SOURCES, home_folder

LOCK = REPO / os.environ.get("MILLRACE_LOCK", "requirements.lock")
"""The image of the shared deployment sets its own."""
STAMP = SHARE / "ready.json"
PACKAGES_STAMP = SHARE / "packages"
INSTALLING = SHARE / "installing"
VAR = REPO / "var" if IN_CHECKOUT else home_folder()
LOG = VAR / "logs" / "setup.log"
Run = Callable[..., None]
"""Runs a program, with variables on top of the environment; raises ProgramFailed."""


def main(args: list[str]) -> int:
    """Install the packages if they are missing, then replace this process by the command line inside the environment.

    Args:
        args: The arguments. ``setup`` stops after set-up; its own arguments are connectors whose jars are fetched too.

    Returns:
        An exit code, if there is no command to run.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    only_setup = args[:1] == ["setup"] and CONNECTORS.keys() >= set(args[1:])
    try:
        java_home = set_up(args[1:]) if only_setup else ensure_environment()
    except MillraceError as error:
        say(f"millrace: {error}")
        return 2
    except ProgramFailed as error:
        say(f"millrace: setup failed: {error}\nThe full output is in {LOG}. Run again to continue from here.")
        return 1
    except OSError as error:  # a clone of another user, or a full disk
        say(f"millrace: setup failed: {error}. Make {REPO} yours, with free space, and run again.")
        return 1
    except KeyboardInterrupt:
        say("\nmillrace: setup interrupted. Run again to continue from here.")
        return 130
    if only_setup:
        say("millrace: setup complete")
        return 0
    if java_home:
        os.environ["JAVA_HOME"] = java_home
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SOURCES), str(REPO), os.environ.get("PYTHONPATH")]))
    python = str(spark_env.python())
    return os.execv(python, [python, "-m", "millrace.local.cli", *args])  # noqa: S606 - an argv list, no shell


def ensure_environment() -> str | None:
    """Install the packages, and fetch Delta's jars again if this folder had them before.

    Returns:
        JAVA_HOME, or None if nothing was set up for Spark.

    Raises:
        MillraceError: The user has to install or fix something.
        ProgramFailed: A program of set-up failed; its output is in the log.
    """
    had_spark = STAMP.is_file()  # a new environment has no jars
    _ensure_own_packages()
    return (ready() or ensure()) if had_spark else None


def ensure_spark() -> None:
    """Set up the parts that Spark needs, and set JAVA_HOME for the programs that this process starts.

    Raises:
        MillraceError: The user has to install or fix something, or a program of set-up failed.
    """
    try:
        java_home = ready() or ensure()
        _ensure_archive(java_home, again=False)
    except ProgramFailed as error:
        remedy = f"Read {LOG}, then run the command again."
        raise MillraceError("setup", str(error).splitlines()[0], "a complete setup", remedy) from error
    os.environ["JAVA_HOME"] = java_home


def set_up(connectors: Iterable[str] = ()) -> str:
    """Set up everything that is missing: packages, Java, Delta's jars, the class archive.

    Args:
        connectors: Names of connectors whose jars to fetch as well.

    Returns:
        JAVA_HOME.

    Raises:
        MillraceError: The user has to install or fix something.
        ProgramFailed: A program of set-up failed; its output is in the log.
    """
    _ensure_own_packages()
    java_home = ready() or ensure()
    for name in connectors:
        ensure_jars(CONNECTORS[name], java_home)
    _ensure_archive(java_home, again=True)
    return java_home


def ready() -> str | None:
    """Check in milliseconds whether Java and Delta's jars are in place.

    Returns:
        JAVA_HOME, or None if set-up has to check more closely.
    """
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
        java_home = str(stamp["java_home"])
    except (OSError, ValueError, KeyError):
        return None
    whole = stamp.get("key") == _key() and (Path(java_home) / "bin" / "java").exists() and not DELTA.missing()
    # check again if an explicit JAVA_HOME differs
    named = os.environ.get("JAVA_HOME")
    same_java = not named or Path(named).resolve() == Path(java_home).resolve()
    return java_home if whole and same_java else None


def _key() -> str:
    """Hash the list of wanted jars."""
    return hashlib.sha256(DELTA.pins.read_bytes()).hexdigest()


def _packages_key() -> str:
    lock = LOCK.read_bytes() if IN_CHECKOUT else b""
    return f"{hashlib.sha256(lock).hexdigest()} {spark_env.python()} {spark_env.python().resolve()} {SOURCES}"


def ensure() -> str:
    """Find or install Java, and fetch Delta's jars if they are missing; only one set-up runs at a time.

    Returns:
        JAVA_HOME.

    Raises:
        MillraceError: The user has to install or fix something.
        ProgramFailed: A program of set-up failed; its output is in the log.
    """
    with _one_at_a_time() as run_logged:
        if done := ready():
            return done
        STAMP.unlink(missing_ok=True)
        jre = _java(run_logged)
        _jars(DELTA, _with_java(run_logged, str(jre.home)))
        write_atomically(STAMP, json.dumps({"key": _key(), "java_home": str(jre.home)}), 0o644)
        return str(jre.home)


def ensure_jars(jars: JarSet, java_home: str | None = None) -> None:
    """Download the missing jars of a set.

    Args:
        jars: The set.
        java_home: Java that downloads them; by default the environment's.

    Raises:
        MillraceError: A jar could not be fetched, or is not the pinned one.
    """
    if not jars.missing():
        return
    with _one_at_a_time() as run_logged:
        try:
            _jars(jars, _with_java(run_logged, java_home))
        except ProgramFailed as error:
            remedy = f"Read {LOG}; {spark_files.MIRROR_VARIABLE} names a mirror of Maven Central."
            raise MillraceError("jars", jars.title, "jars that can be downloaded", remedy) from error


def ensure_packages(lock: Path) -> None:
    """Install the missing packages of a lock into the environment.

    Args:
        lock: A compiled lock with hashes; packages that the environment already has must have the same version.

    Raises:
        MillraceError: They could not be installed.
    """
    with _one_at_a_time() as run_logged:
        try:
            python_env.add(VENV, lock, run_logged, say)
        except ProgramFailed as error:
            remedy = f"Read {LOG}; the first call needs a package index."
            raise MillraceError("packages", str(lock), "installable packages", remedy) from error


def _ensure_archive(java_home: str, again: bool) -> None:
    """Make the class archive if none fits; retry one that failed before only if ``again``."""
    jre = java.inspect(Path(java_home) / "bin" / "java")
    if jre is None or spark_files.archive_settled(jre.version, again):
        return
    with _one_at_a_time() as run_logged:
        if not spark_files.archive_settled(jre.version, again):
            say("Making Spark's class archive, once per installation; it makes drivers and executors start faster.")
            _archive(_with_java(run_logged, java_home), jre.version)


def _with_java(run: Run, java_home: str | None) -> spark_files.Run:
    """Return a function that runs Spark programs with the checked Java; by default the environment's."""
    chosen = {"JAVA_HOME": java_home} if java_home else {}
    return lambda argv, env: run(argv, {**env, **chosen})


def _ensure_own_packages() -> None:
    if _packages_done():
        return
    with _one_at_a_time() as run_logged:
        if not _packages_done():
            say(f"Setting up Millrace in {REPO}; later starts skip this.")
            _packages(run_logged)


@contextmanager
def _one_at_a_time() -> Iterator[Run]:
    """Hold set-up's lock; yield a function that runs a program under it and logs its output."""
    path = VAR / "setup.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another setup of this folder is running; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)

        def run_logged(argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> None:
            run(argv, LOG, env=env, lock_fd=lock.fileno())

        yield run_logged


@contextmanager
def _scratch(name: str) -> Iterator[Path]:
    folder = SHARE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _java(run: Run) -> java.Java:
    found, old = java.find()
    if found is None and java.may_install():
        say(f"  no Java {java.OLDEST}+ found: installing the system package {java.PACKAGE}")
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        with step(f"Java ({java.PACKAGE})"), suppress(ProgramFailed):
            run(["apt-get", "update"], quiet)
            run(["apt-get", "install", "-y", "--no-install-recommends", java.PACKAGE], quiet)
        found, old = java.find()
    if found is None:
        raise java.missing(old)
    return found


def _packages_done() -> bool:
    if not IN_CHECKOUT:
        return True
    kept = PACKAGES_STAMP.read_text(encoding="utf-8") if PACKAGES_STAMP.is_file() else ""
    return python_env.usable(VENV) and kept == _packages_key() and not INSTALLING.exists()


def _packages(run: Run) -> None:
    if _packages_done():
        return
    with step("Python packages"):
        # an interrupted install may have left half a package, which no installer would notice
        fresh = INSTALLING.exists() or not python_env.usable(VENV)
        if fresh:
            python_env.discard(VENV)
        SHARE.mkdir(parents=True, exist_ok=True)
        PACKAGES_STAMP.unlink(missing_ok=True)
        INSTALLING.touch()
        if fresh:
            python_env.create(VENV, run, say)
        python_env.install(VENV, LOCK, SHARE, run, say)
        python_env.add_sources(VENV, SOURCES)
        INSTALLING.unlink()
        write_atomically(PACKAGES_STAMP, _packages_key(), 0o644)


def _jars(jars: JarSet, run: spark_files.Run) -> None:
    if jars.missing():
        with step(f"{jars.title} jars"), _scratch("resolving") as scratch:
            spark_files.fetch_jars(jars, scratch, run)


def _archive(run: spark_files.Run, java_version: str) -> None:
    try:
        with step("Spark class archive"), _scratch("training") as scratch:
            spark_files.make_archive(java_version, scratch, run)
    except (ProgramFailed, OSError) as error:
        spark_files.note_failure(java_version)
        say(f"  no class archive, so drivers start more slowly ({str(error).splitlines()[0]})")

"""Set-up: safe to interrupt at any point and to repeat, and fast if nothing is missing."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from millrace.environment import spark_env
from millrace.environment.jars import CONNECTORS, DELTA, JarSet
from millrace.local.stack import java, progress, python_env, setup, spark_files
from millrace.model.errors import MillraceError
from millrace.places import REPO, SOURCES

PATIENCE_S = 600.0
PACKAGES = """from millrace.local.stack import setup
with setup._one_at_a_time() as run:
    setup._packages(run)
print('whole')
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Copy the files that set-up needs, with a lock of two small packages to keep installation short."""
    for name in ("include", "jobs", "optimizers"):
        shutil.copytree(REPO / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(REPO / "millrace", tmp_path / "millrace")
    lock = (REPO / "requirements.lock").read_text()
    small = "".join(python_env.stanza(lock, name) for name in ("click", "filelock", "uv"))
    (tmp_path / "requirements.lock").write_text(small)
    return tmp_path


def _run(argv: Sequence[str | Path], env: Mapping[str, str]) -> None:
    progress.run(argv, setup.LOG, env=env)


def _packages(clone: Path) -> subprocess.Popen[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "MILLRACE_HOME")}
    env["PYTHONPATH"] = str(clone / "include")
    return subprocess.Popen(
        [sys.executable, "-c", PACKAGES], cwd=clone, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _assert_whole(clone: Path) -> None:
    python = clone / ".venv" / "bin" / "python"
    code = "import click, filelock; from millrace.places import SOURCES; click.echo(SOURCES)"
    # whatever PYTHONPATH the tests have
    imported = subprocess.run([python, "-E", "-c", code], check=True, capture_output=True, text=True).stdout
    assert imported.strip() == str(clone / "include")
    assert not (clone / ".venv" / "share" / "millrace" / "installing").exists()
    assert not (clone / ".venv.discarded").exists()


@pytest.mark.slow
def test_set_up_completes_after_a_kill_at_any_point(clone: Path) -> None:
    marks = (
        clone / ".venv" / "share" / "millrace" / "installing",
        clone / ".venv" / "bin" / "python",
        clone / ".venv" / "bin" / "uv",
    )
    for mark in marks:
        running = _packages(clone)
        deadline = time.monotonic() + PATIENCE_S
        while not mark.exists() and running.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        running.send_signal(signal.SIGKILL)
        running.communicate()
    # pip of the killed set-up may still run. It holds the lock, so the next set-up waits for it
    out, err = _packages(clone).communicate(timeout=PATIENCE_S)
    assert "whole" in out, err
    _assert_whole(clone)


@pytest.mark.slow
def test_packages_when_two_set_ups_run_at_once_then_one_waits_and_both_succeed(clone: Path) -> None:
    both = [_packages(clone), _packages(clone)]
    told = [p.communicate(timeout=PATIENCE_S) for p in both]
    assert all("whole" in out for out, _ in told), told
    assert sum("waiting for it" in err for _, err in told) == 1
    assert sum("Python packages" in err for _, err in told) == 1
    _assert_whole(clone)


def test_lock_held_by_a_child_of_a_killed_set_up_is_still_held(tmp_path: Path) -> None:
    """Set-up's child programs inherit the lock, or two installers would write into one environment."""
    code = (
        "import fcntl, os, sys\nfrom pathlib import Path\nfrom millrace.local.stack import progress\n"
        "lock = open(sys.argv[1], 'w'); fcntl.flock(lock, fcntl.LOCK_EX)\n"
        "child = 'import sys, time; open(sys.argv[1], chr(119)).close(); time.sleep(3600)'\n"
        "progress.run([sys.executable, '-c', child, sys.argv[2]], Path(sys.argv[3]), lock_fd=lock.fileno())\n"
    )
    lock, begun, log = tmp_path / "lock", tmp_path / "begun", tmp_path / "log"
    killed = subprocess.Popen([sys.executable, "-c", code, lock, begun, log], cwd=REPO)
    deadline = time.monotonic() + PATIENCE_S
    while not begun.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (child,) = psutil.Process(killed.pid).children()
    killed.kill()
    killed.wait()
    try:
        with lock.open("w") as mine, pytest.raises(BlockingIOError):
            fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        child.kill()


@pytest.fixture
def in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set-up whose stamp says that it is complete."""
    java = tmp_path / "jre" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", "")  # pytest restores it after the test
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setattr(setup, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(setup, "STAMP", tmp_path / "ready.json")
    delta = replace(DELTA, folder=tmp_path / "jars")
    monkeypatch.setattr(setup, "DELTA", delta)
    kafka = replace(CONNECTORS["kafka"], folder=tmp_path / "kafka")
    monkeypatch.setattr(setup, "CONNECTORS", {"kafka": kafka})
    (tmp_path / "lock").write_text("a==1")
    (tmp_path / "jars").mkdir()
    for jar in delta.pinned():
        jar.touch()
    (tmp_path / "ready.json").write_text(json.dumps({"key": setup._key(), "java_home": str(tmp_path / "jre")}))
    return tmp_path


def test_ready_when_complete_then_returns_the_java(in_place: Path) -> None:
    assert setup.ready() == str(in_place / "jre")


@pytest.mark.parametrize("broken", ["jar", "java", "stamp", "no stamp", "other java"])
def test_ready_when_something_changed_then_is_false(
    in_place: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_java() -> None:
        (in_place / "jre" / "bin" / "java").unlink()

    {
        "jar": lambda: next((in_place / "jars").iterdir()).unlink(),
        "java": no_java,
        "stamp": lambda: (in_place / "ready.json").write_text('{"key"'),
        "no stamp": lambda: (in_place / "ready.json").unlink(),
        "other java": lambda: monkeypatch.setenv("JAVA_HOME", str(in_place / "other")),
    }[broken]()
    assert setup.ready() is None


@pytest.fixture
def steps(in_place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps of set-up in a fresh clone, replaced by steps that do nothing."""
    taken: list[str] = []
    (in_place / "ready.json").unlink()
    shutil.rmtree(in_place / "jars")
    jre = java.Java(in_place / "jre", "17.0.15")

    def java_found(run: setup.Run) -> java.Java:
        taken.append("java")
        return jre

    monkeypatch.setattr(setup, "VAR", in_place / "var")
    monkeypatch.setattr(setup, "PACKAGES_STAMP", in_place / "packages")
    monkeypatch.setattr(setup, "_java", java_found)
    monkeypatch.setattr(setup, "_packages", lambda run: taken.append("packages"))
    monkeypatch.setattr(setup, "_packages_done", lambda: "packages" in taken)
    monkeypatch.setattr(setup, "_jars", lambda jars, run: taken.append(jars.title))
    monkeypatch.setattr(setup, "_archive", lambda run, version: taken.append("archive"))
    monkeypatch.setattr(java, "inspect", lambda program: jre)
    monkeypatch.setattr(spark_files, "archive_settled", lambda version, again: False)
    monkeypatch.setattr(os, "execv", lambda program, argv: taken.append(" ".join(argv[3:])))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("PYTHONPATH", "")
    return taken


@pytest.mark.parametrize("command", ["", "--help", "pipelines", "doctor", "status", "up --help", "setup --help"])
def test_command_in_a_fresh_clone_waits_only_for_packages(steps: list[str], command: str) -> None:
    setup.main(command.split())
    assert steps == ["packages", command] and "JAVA_HOME" not in os.environ


def test_clone_of_another_user_is_named_without_a_traceback(
    steps: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def closed() -> None:
        raise PermissionError(13, "Permission denied", "/opt/millrace/var/setup.lock")

    monkeypatch.setattr(setup, "_ensure_own_packages", closed)
    assert setup.main(["status"]) == 1
    assert "setup failed: [Errno 13] Permission denied: '/opt/millrace/var/setup.lock'" in capsys.readouterr().err


def test_explicit_set_up_fetches_everything_and_starts_nothing(steps: list[str]) -> None:
    assert setup.main(["setup", "kafka"]) == 0
    assert steps == ["packages", "java", "Delta", "Kafka", "archive"]


def test_changed_lock_installs_the_packages_again(in_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "PACKAGES_STAMP", in_place / "packages")
    monkeypatch.setattr(setup, "INSTALLING", in_place / "installing")
    monkeypatch.setattr(python_env, "usable", lambda venv: True)
    (in_place / "packages").write_text(setup._packages_key())
    assert setup._packages_done()
    (in_place / "lock").write_text("a==2")
    assert not setup._packages_done()


def test_command_that_starts_spark_completes_set_up_and_names_the_java(steps: list[str], in_place: Path) -> None:
    setup.ensure_spark()
    assert steps == ["java", "Delta", "archive"] and os.environ["JAVA_HOME"] == str(in_place / "jre")


def test_folder_set_up_for_spark_is_kept_complete_by_any_command(steps: list[str], in_place: Path) -> None:
    (in_place / "ready.json").write_text("{}")
    setup.main(["status"])
    assert steps == ["packages", "java", "Delta", "status"] and os.environ["JAVA_HOME"] == str(in_place / "jre")


def test_failed_set_up_is_reported_by_the_command_that_needs_it(
    steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(jars: JarSet, run: setup.Run) -> None:
        raise progress.ProgramFailed(["spark-submit"], 2, "no network")

    monkeypatch.setattr(setup, "_jars", fails)
    with pytest.raises(MillraceError, match=r"setup: got 'spark-submit ended with exit code 2'.*setup\.log"):
        setup.ensure_spark()


def test_failed_archive_is_retried_only_by_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(argv: Sequence[str | Path], env: Mapping[str, str]) -> None:
        raise progress.ProgramFailed(["spark-submit"], 1, "")

    monkeypatch.setattr(setup, "SHARE", tmp_path)
    monkeypatch.setattr(spark_env, "ARCHIVE", tmp_path / "spark.jsa")
    monkeypatch.setattr(spark_files, "KEY", tmp_path / "spark.key")
    monkeypatch.setattr(spark_files, "archive_key", lambda version: f"key of {version}")
    monkeypatch.setattr(spark_env, "class_path", lambda: "")
    assert not spark_files.archive_settled("17")
    setup._archive(fails, "17")
    assert spark_files.archive_settled("17") and not spark_files.archive_settled("17", again=True)
    assert not spark_files.archive_settled("21"), "another Java may succeed"
    setup._archive(lambda argv, env: (tmp_path / "training" / "spark.jsa").touch(), "17")
    assert spark_files.archive_settled("17", again=True)


def test_stanza_of_a_locked_package_has_only_its_hashes() -> None:
    text = python_env.stanza((REPO / "requirements.lock").read_text(), "uv")
    assert text.startswith("uv==")
    assert re.findall(r"^(\S+)==", text, re.M) == ["uv"]
    assert "--hash=sha256:" in text
    with pytest.raises(MillraceError, match="no-such-package"):
        python_env.stanza("uv==1 \\\n    --hash=sha256:00\n", "no-such-package")


@pytest.mark.parametrize("folder", ["", "tests", "docs"])
def test_requirements_are_all_pinned_and_locked(folder: str) -> None:
    lock = (REPO / folder / "requirements.lock").read_text().lower()
    for line in (REPO / folder / "requirements.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, version = line.lower().split("==")
            normalised = re.sub(r"[._]", "-", name.split("[")[0])
            assert f"\n{normalised}=={version} " in lock


def test_lock_of_tests_uses_the_versions_of_the_lock_which_has_no_test_tool() -> None:
    main, tests = (
        dict(re.findall(r"^(\S+)==(\S+)", (REPO / folder / "requirements.lock").read_text(), re.M))
        for folder in ("", "tests")
    )
    both = main.keys() & tests.keys()
    assert {name: main[name] for name in both} == {name: tests[name] for name in both}
    assert {"pytest", "mypy", "ruff", "hypothesis", "pyspark-client"}.isdisjoint(main)


def test_source_distributions_are_built_with_locked_versions() -> None:
    locked = python_env.stanza(python_env.BUILD_LOCK.read_text(), "setuptools")
    version = locked.partition(" ")[0]
    assert f'requires = ["{version}"]' in (REPO / "pyproject.toml").read_text()
    assert "--hash=sha256:" in locked


def test_jars_when_a_repository_serves_another_file_then_are_refused(tmp_path: Path) -> None:
    jars, scratch = replace(DELTA, folder=tmp_path / "jars"), tmp_path / "scratch"
    served = scratch / "ivy" / "jars"
    served.mkdir(parents=True)
    for jar in jars.pinned():
        (served / f"io.delta_{jar.name}").write_bytes(b"something else")
    with pytest.raises(MillraceError, match="SHA-256"):
        spark_files.fetch_jars(jars, scratch, lambda argv, env: None)
    assert jars.missing() == list(jars.pinned())


def test_jars_are_fetched_only_from_the_named_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(spark_files.MIRROR_VARIABLE, "https://mirror.test/maven?a=1&b=2")
    jars, scratch = replace(CONNECTORS["kafka"], folder=tmp_path / "jars"), tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(MillraceError, match=spark_files.MIRROR_VARIABLE):
        spark_files.fetch_jars(jars, scratch, lambda argv, env: None)
    (resolver,) = ElementTree.parse(scratch / "ivy.xml").getroot().iter("ibiblio")
    assert (resolver.get("root"), resolver.get("usepoms")) == ("https://mirror.test/maven?a=1&b=2", "false")


def test_jars_that_cannot_be_fetched_are_reported_with_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = replace(CONNECTORS["kafka"], folder=tmp_path / "jars")
    monkeypatch.setattr(setup, "LOG", tmp_path / "setup.log")
    monkeypatch.setattr(spark_env, "spark_submit", lambda: "false")
    with pytest.raises(MillraceError, match=r"Kafka.*setup\.log"):
        setup.ensure_jars(empty, str(tmp_path))
    assert not empty.folder.exists()


@pytest.mark.parametrize("version", [(3, 8, 10), (3, 14, 0)])
def test_launcher_when_python_is_not_supported_then_says_so_in_one_line(version: tuple[int, int, int]) -> None:
    source = f"__file__ = {str(REPO / 'millrace')!r}\n" + (REPO / "millrace").read_text()
    told = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.version_info = {version}; exec(sys.argv[1])", source],
        capture_output=True,
        text=True,
        env={"PATH": ""},
        cwd=REPO,
    )
    assert told.returncode == 1
    assert told.stderr.count("\n") == 1
    assert "Python 3.11 to 3.13" in told.stderr


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java, with a package manager that can install it."""
    jre = tmp_path / "jre"
    told = f"    java.home = {jre}\\n    java.version = 17.0.15\\n"
    apt = tmp_path / "bin" / "apt-get"
    apt.parent.mkdir()
    apt.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {tmp_path}/asked\n'
        f'[ "$1" = install ] || exit 0\n'
        f"/bin/mkdir -p {jre}/bin\n"
        f"printf '#!/bin/sh\\nprintf \"{told}\" >&2\\n' > {jre}/bin/java\n"
        f"/bin/chmod +x {jre}/bin/java\n"
    )
    apt.chmod(0o755)
    monkeypatch.setattr(java, "candidates", lambda: iter([jre / "bin" / "java"]))
    monkeypatch.setattr(setup, "LOG", tmp_path / "setup.log")
    monkeypatch.setenv("PATH", str(apt.parent))
    return tmp_path


def test_java_when_missing_and_root_on_debian_then_is_installed_and_reported(
    no_java: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert setup._java(_run).major == 17
    assert java.PACKAGE in capsys.readouterr().err
    asked = (no_java / "asked").read_text().splitlines()
    assert asked[0] == "update"
    assert asked[1].endswith(java.PACKAGE)


def test_java_when_missing_and_not_root_then_says_what_to_install(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MillraceError, match=java.PACKAGE):
        setup._java(_run)
    assert not (no_java / "asked").exists()


def test_set_up_imports_only_the_standard_library() -> None:
    """It runs before anything is installed."""
    env = {"PATH": os.defpath, "PYTHONPATH": str(SOURCES)}
    # -S leaves every installed package out
    argv = [sys.executable, "-S", "-c", "from millrace.local.stack import setup"]
    subprocess.run(argv, check=True, env=env, cwd=REPO)

"""Checks of the machine and the home."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from millrace.environment.home import Home
from millrace.lake.location import Location
from millrace.lake.store import Lake
from millrace.local.doctor import machine
from millrace.local.doctor.finding import Level, checked
from millrace.local.stack import java
from millrace.places import REPO
from tests.object_stores.place import Place
from tests.s3.server import Bucket


@pytest.mark.parametrize(("bound", "version", "said"), [("OLDEST", (4, 0), "too old"), ("NEWEST", (3, 8), "too new")])
def test_python_of_another_version_is_named_with_the_versions_that_are_supported(
    monkeypatch: pytest.MonkeyPatch, bound: str, version: tuple[int, int], said: str
) -> None:
    assert machine.python().level is Level.OK
    monkeypatch.setattr(machine, f"{bound}_PYTHON", version)
    found = machine.python()
    assert found.level is Level.PROBLEM and said in found.sentence and "Python 3.11 to 3.13" in found.remedy


@pytest.mark.parametrize(("name", "version"), [("apache-airflow", "2.10.4"), ("pyspark", "4.3.0")])
def test_package_of_another_version_is_named(name: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.packages().level is Level.OK
    installed = machine.metadata.version
    monkeypatch.setattr(machine.metadata, "version", lambda asked: version if asked == name else installed(asked))
    found = machine.packages()
    assert found.level is Level.PROBLEM and f"{name} {version} is installed; Millrace needs " in found.sentence


def test_versions_match_the_project() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    needed = project["optional-dependencies"]["airflow"]
    least, below = (".".join(map(str, bound)) for bound in machine.VERSIONS["apache-airflow"])
    assert f"apache-airflow>={least},<{below.removesuffix('.0')}" in needed
    spark = next(d for d in needed if d.startswith("pyspark=="))
    assert spark.startswith(f"pyspark=={'.'.join(map(str, machine.VERSIONS['pyspark'][0]))}.")


def test_java_when_too_old_then_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find", lambda: (None, java.Java(Path("/old"), "1.8.0")))
    found = machine.java()
    assert found.level is Level.PROBLEM
    assert "1.8.0" in found.sentence and java.PACKAGE in found.remedy


def test_jars_not_needed_yet_are_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "DELTA", replace(machine.DELTA, folder=tmp_path / "none"))
    assert machine.spark().level is Level.OK and "the first ./millrace up downloads" in machine.spark().sentence


def test_modified_jar_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delta = replace(machine.DELTA, folder=tmp_path)
    monkeypatch.setattr(machine, "DELTA", delta)
    assert (machine.spark().level, machine.spark().remedy) == (Level.PROBLEM, "Run ./millrace setup.")
    for jar in delta.pinned():
        jar.write_bytes(b"half a jar")
    assert next(iter(delta.pinned())).name in machine.spark().sentence and "Delete" in machine.spark().remedy


@pytest.mark.parametrize(("free_gib", "level"), [(0.5, Level.PROBLEM), (3, Level.WARNING), (50, Level.OK)])
def test_disk_with_little_room_is_reported(
    tmp_path: Path, free_gib: float, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = SimpleNamespace(free=free_gib * 2**30)
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: usage)
    assert machine.disk(Home(tmp_path / "not" / "made")).level is level


def test_unwritable_lake_is_a_problem(tmp_path: Path) -> None:
    new, closed = Home(tmp_path / "new"), Home(Path("/proc/home"))
    assert machine.lake(new, Location.of(new.lake)).level is Level.OK
    assert not new.root.exists()  # the check creates nothing
    found = machine.lake(closed, Location.of(closed.lake))
    assert found.level is Level.PROBLEM and "MILLRACE_HOME" in found.remedy


def test_writable_bucket_of_each_kind_is_fine(tmp_path: Path, place: Place) -> None:
    location = Location.of(place.lake)
    assert machine.lake(Home(tmp_path), location).level is Level.OK
    assert list(location.files.list()) == []  # the check leaves nothing behind
    found = machine.lake(Home(tmp_path), Location.of(place.missing))
    assert found.level is Level.PROBLEM and next(iter(location.options)) in found.remedy


def test_unwritable_bucket_is_a_problem(tmp_path: Path, s3: Bucket) -> None:
    location = Location.of(s3.lake)
    assert machine.lake(Home(tmp_path), location).level is Level.OK
    assert list(location.files.list()) == []  # the check leaves nothing behind
    s3.deny()
    try:
        found = machine.lake(Home(tmp_path), location)
    finally:
        s3.allow()
    assert (
        found.level is Level.PROBLEM
        and "INVALID_ACCESS_KEY_ID: " in found.sentence
        and "AWS_ACCESS_KEY_ID" in found.remedy
    )


def test_clock_behind_the_newest_rows_is_a_problem(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert machine.clock(Lake(home.lake)).level is Level.OK
    Lake(home.lake).create("control/decisions")
    assert machine.clock(Lake(home.lake)).level is Level.OK
    found = machine.clock(Lake(home.lake), datetime.now(UTC) - timedelta(minutes=10))
    assert found.level is Level.PROBLEM and "in the future" in found.sentence


def test_check_that_fails_to_run_is_itself_a_problem() -> None:
    def broken() -> None:
        raise ZeroDivisionError("a surprise")

    found = checked("disk", broken)  # type: ignore[arg-type]
    assert found.level is Level.PROBLEM and "a surprise" in found.sentence

"""Messages if the peer cannot be set up. Nothing here contacts a registry or needs Java."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.flink import jars
from benchmarks.flink.autoscaler import FlinkAutoscaler
from benchmarks.flink.unavailable import Unavailable
from millrace.environment import spark_env
from millrace.local.stack import java


@pytest.fixture
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, an empty PATH, and some Java."""
    monkeypatch.setattr(jars, "FLINK", replace(jars.FLINK, folder=tmp_path / "flink"))
    monkeypatch.setattr(java, "find", lambda: (java.Java(tmp_path / "jre", "17.0.1"), None))
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setattr(spark_env, "spark_submit", lambda: programs / "spark-submit")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return programs


def program(folder: Path, name: str, does: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)


def test_available_when_path_is_emptied_then_says_that_javac_is_missing(nothing_here: Path) -> None:
    found = FlinkAutoscaler.available()
    assert not found
    assert "javac" in found.reason and "\n" not in found.reason


def test_available_when_there_is_no_java_then_says_which_one_is_needed(
    nothing_here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "find", lambda: (None, java.Java(nothing_here, "11.0.2")))
    assert FlinkAutoscaler.available().reason == "no Java 17 or newer here, only 11.0.2"


def test_available_when_ivy_fails_then_shows_its_first_complaint_in_one_line(nothing_here: Path) -> None:
    program(nothing_here, "javac", "exit 0")
    program(nothing_here, "spark-submit", "echo '[ERROR] no route to the registry'; echo 'at ivy.java'; exit 1")
    assert FlinkAutoscaler.available().reason == "Ivy failed with exit code 1: [ERROR] no route to the registry"


def test_ensure_when_a_jar_is_not_the_pinned_one_then_keeps_none_of_it(nothing_here: Path) -> None:
    program(nothing_here, "spark-submit", "exit 0")
    with pytest.raises(Unavailable, match=r"flink-autoscaler-1.10.0.jar.*SHA-256 [0-9a-f]{64}"):
        jars.ensure(jars.FLINK)
    assert list(jars.FLINK.folder.iterdir()) == []


def test_pins_when_read_then_the_autoscaler_comes_first() -> None:
    # its copies of some of flink-runtime's classes must come first
    pinned = list(jars.FLINK.pinned().values())
    assert pinned[0][0] == "org.apache.flink:flink-autoscaler:1.10.0"
    assert all(len(digest) == 64 for _, digest in pinned)

"""Java: reading versions, choosing an installation, reporting what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.local.stack import java


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.8.0_402", 8), ("11.0.22", 11), ("17.0.15", 17), ("21", 21), ("25-ea", 25), ("21.0.3+9-LTS", 21), ("", 0)],
)
def test_major_when_java_prints_its_version_then_is_the_feature_release(version: str, expected: int) -> None:
    assert java.major(version) == expected


def _program(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    told = f"Property settings:\n    java.home = {folder}\n    java.version = {version}\n"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'EOF'\n{told}EOF\n")
    program.chmod(0o755)
    return program


def test_find_when_the_first_is_too_old_then_takes_the_next_suitable_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = [_program(tmp_path / "old", "1.8.0_402"), _program(tmp_path / "new", "21.0.1")]
    monkeypatch.setattr(java, "candidates", lambda: iter(programs))
    found, old = java.find()
    assert found == java.Java(tmp_path / "new", "21.0.1")
    assert old and old.major == 8


def test_find_when_all_are_too_old_or_broken_then_names_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken" / "bin" / "java"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho 'no Java here' >&2; exit 1\n")
    broken.chmod(0o755)
    programs = [broken, _program(tmp_path / "8", "1.8.0_402"), _program(tmp_path / "11", "11.0.2"), tmp_path / "none"]
    monkeypatch.setattr(java, "candidates", lambda: iter(programs))
    found, old = java.find()
    assert found is None
    assert "11.0.2" in str(java.missing(old))
    assert java.PACKAGE in str(java.missing(None))


def test_candidates_when_java_home_is_set_then_it_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert next(java.candidates()) == tmp_path / "bin" / "java"

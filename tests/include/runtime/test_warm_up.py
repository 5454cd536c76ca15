"""Where a successor rehearses: only on this machine, without a trace in any file system."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.runtime.warm_up import WarmUp, is_here


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("master", "here"),
    [
        ("local[4]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://host:7077", False),
        ("yarn", False),
        ("k8s://https://127.0.0.1:6443", False),
    ],
)
def test_master_says_whether_executors_are_on_this_machine(master: str, here: bool) -> None:
    assert is_here(master) is here


def test_nothing_is_rehearsed_for_executors_on_other_machines(
    scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame: Any = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=SimpleNamespace(master="yarn")))
    WarmUp(60.0)(frame)
    assert capsys.readouterr().err == "" and list(scratch.iterdir()) == []


@pytest.mark.spark
def test_rehearsal_uses_this_machines_files_whatever_the_default_file_system(
    spark: Any, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hadoop, default = spark.sparkContext._jsc.hadoopConfiguration(), "fs.defaultFS"
    before = hadoop.get(default)
    hadoop.set(default, "nowhere://host")
    try:
        WarmUp(600.0)(spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load())
    finally:
        hadoop.set(default, before)
    assert capsys.readouterr().err == "" and list(scratch.iterdir()) == []

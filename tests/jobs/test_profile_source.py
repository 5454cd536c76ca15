"""The batch job ``profile`` as spark-submit starts it."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from filelock import FileLock

from millrace.jobs.profile_source import main
from millrace.lake.store import Lake
from millrace.model.submit_options import conf_words

JOB = Path(__file__).resolve().parents[2] / "jobs" / "profile_source.py"


def arguments(tmp_path: Path, **changes: str) -> list[str]:
    given = {"pipeline": "p", "lake": str(tmp_path / "lake"), "source": str(tmp_path / "source"), "time-column": "at"}
    given |= {"period-s": "600", "stream": "plane"} | changes
    return [word for key, value in given.items() for word in (f"--{key}", value)]


@pytest.mark.parametrize(
    ("changes", "key"),
    [({"stream": " ,"}, "--stream"), ({"period-s": "0"}, "--period-s")],
)
def test_main_when_an_argument_is_malformed_then_says_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, str], key: str
) -> None:
    assert main(arguments(tmp_path, **changes)) == 2
    assert key in capsys.readouterr().err


def test_main_does_not_wait_for_another_job_of_the_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lake").mkdir()
    with FileLock(tmp_path / "lake" / ".profile-p.lock"):
        assert main(arguments(tmp_path)) == 2
    assert "one job of a pipeline at a time" in capsys.readouterr().err


@pytest.mark.spark
def test_job_when_submitted_then_writes_its_table(tmp_path: Path) -> None:
    from millrace.environment.spark_env import driver_submit_conf, environment, spark_submit

    start = datetime(2013, 1, 1, tzinfo=UTC)
    rows = pa.table(
        {"at": [start + timedelta(minutes=n) for n in range(40)], "plane": [f"N{n % 5}" for n in range(40)]}
    )
    write_deltalake(tmp_path / "source", rows)
    conf = driver_submit_conf() | {"spark.ui.enabled": "false"}
    command = [spark_submit(), "--master", "local[2]", *conf_words(conf), JOB, *arguments(tmp_path)]
    ended = subprocess.run(command, env={**os.environ, **environment()}, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "through version 0" in ended.stdout
    counted = Lake(tmp_path / "lake").rows("select time, stream, rows from streams", "telemetry/streams")
    assert sum(r["rows"] for r in counted) == 40
    assert {r["time"] for r in counted} == {start + timedelta(minutes=10 * n) for n in range(4)}
    assert {r["stream"] for r in counted} == {f"N{n}" for n in range(5)}

"""The last error in a driver's log."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

import pytest

from millrace.drivers import driver_log

JVM = """26/01/01 10:00:00 WARN Something: a RuntimeException was ignored
Exception in thread "main" org.apache.spark.SparkException: Failed to get main class in JAR
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1)
26/01/01 10:00:01 INFO ShutdownHookManager: Shutdown hook called
"""
PYTHON = """Traceback (most recent call last):
  File "s.py", line 1, in <module>
    import nowhere
ModuleNotFoundError: No module named 'nowhere'
26/01/01 10:00:01 INFO ShutdownHookManager: Deleting directory
"""
OPTION = "Error: Unrecognized option: --nope\n\nUsage: spark-submit [options]\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (JVM, "org.apache.spark.SparkException: Failed to get main class in JAR"),
        (PYTHON, "ModuleNotFoundError: No module named 'nowhere'"),
        (OPTION, "Error: Unrecognized option: --nope"),
        ("all is well\n", None),
        ("", None),
        ("x" * 100_000 + "\n" + PYTHON, "ModuleNotFoundError: No module named 'nowhere'"),
    ],
)
def test_last_error_when_the_log_ends_like_this_then_is_its_cause(tmp_path: Path, text: str, line: str | None) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    assert driver_log.last_error(log) == line


def test_last_error_when_there_is_no_log_or_no_text_then_is_none(tmp_path: Path) -> None:
    assert driver_log.last_error(tmp_path / "none") is None
    (tmp_path / "log").write_bytes(b"\xff\xfe\x00" * 100)
    assert driver_log.last_error(tmp_path / "log") is None


def test_prune_keeps_the_newest_logs_and_those_of_other_apps(tmp_path: Path) -> None:
    for app in ("a", "b"):
        for number in range(1, 31):
            driver_log.path(tmp_path, "p", app, number).touch()
    driver_log.prune(tmp_path, "p", "a", 30)
    kept = sorted(int(f.stem.rsplit("-", 1)[-1]) for f in tmp_path.glob("driver-p-a-*"))
    assert kept == list(range(11, 31)) and len(list(tmp_path.glob("driver-p-b-*"))) == 30


def test_bound_when_a_log_is_large_then_restarts_it_under_the_appending_process(tmp_path: Path) -> None:
    log = tmp_path / "driver-p-a-1.log"
    script = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
    with (
        log.open("ab") as out,
        subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=out, text=True) as writer,
    ):
        assert writer.stdin is not None
        say(writer.stdin, log, "ValueError: before\n" * 10)
        assert driver_log.bound(log, most_bytes=100)
        assert log.stat().st_size == 0
        say(writer.stdin, log, "after\n")
        assert not driver_log.bound(log, most_bytes=100)
        writer.stdin.close()
    assert log.read_text() == "after\n"
    assert driver_log.former(log).read_text() == "ValueError: before\n" * 10
    assert driver_log.last_error(log) == "ValueError: before"


def say(stdin: IO[str], log: Path, text: str) -> None:
    before = log.stat().st_size
    stdin.write(text)
    stdin.flush()
    deadline = time.monotonic() + 600
    while log.stat().st_size < before + len(text):
        assert time.monotonic() < deadline, "the line did not arrive"
        time.sleep(0.01)


def test_bound_without_a_log_does_nothing(tmp_path: Path) -> None:
    assert not driver_log.bound(tmp_path / "none", most_bytes=0)


def test_bound_all_leaves_logs_of_other_pipelines_alone(tmp_path: Path) -> None:
    ours, other = driver_log.path(tmp_path, "p", "a", 1), driver_log.path(tmp_path, "q", "a", 1)
    for log in (ours, other):
        with log.open("wb") as file:
            file.truncate(driver_log.MOST_BYTES + 1)
    driver_log.bound_all(tmp_path, "p")
    assert (ours.stat().st_size, other.stat().st_size) == (0, driver_log.MOST_BYTES + 1)


def test_expire_deletes_old_logs_except_each_apps_newest(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    for app, number in (("a", 1), ("a", 2), ("a", 10), ("b", 1)):
        for log in (file := driver_log.path(tmp_path, "p", app, number), driver_log.former(file)):
            log.touch()
            os.utime(log, (0, 0) if number != 2 else None)
    assert driver_log.expire(tmp_path, now - timedelta(days=30)) == 2
    left = {file.name for file in tmp_path.iterdir()}
    kept = {driver_log.path(tmp_path, "p", app, number).name for app, number in (("a", 2), ("a", 10), ("b", 1))}
    assert left == kept | {f"{name}.1" for name in kept}

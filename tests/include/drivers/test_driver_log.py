"""What a driver's log says last."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.drivers import driver_log

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
        (JVM, 'Exception in thread "main" org.apache.spark.SparkException: Failed to get main class in JAR'),
        (PYTHON, "ModuleNotFoundError: No module named 'nowhere'"),
        (OPTION, "Error: Unrecognized option: --nope"),
        ("all is well\n", None),
        ("", None),
        ("x" * 100_000 + "\n" + PYTHON, "ModuleNotFoundError: No module named 'nowhere'"),
    ],
)
def test_last_error_when_the_log_ends_so_then_is_its_cause(tmp_path: Path, text: str, line: str | None) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    assert driver_log.last_error(log) == line


def test_last_error_when_there_is_no_log_or_it_is_no_text_then_is_none(tmp_path: Path) -> None:
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

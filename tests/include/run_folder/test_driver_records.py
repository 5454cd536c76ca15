"""A driver's record survives kills and damage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from millrace.atomic_file import write_atomically
from millrace.model.errors import MillraceError
from millrace.model.query_failure import QueryFailure
from millrace.run_folder import driver_records
from millrace.run_folder.driver_records import DriverRecord, DriverState

ROOT = Path(__file__).resolve().parents[3]
NOW = datetime(2013, 1, 1, tzinfo=UTC)
RECORD = DriverRecord("p", "a", 1, 2, 3, 4, 5.5, DriverState.RUNNING, NOW, ready_at=NOW, error="ValueError: ü\n")

WRITE_FOREVER = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.include.run_folder.test_driver_records import RECORD
from millrace.run_folder import driver_records
n = 0
while True:
    n += 1
    driver_records.write(Path(sys.argv[1]), replace(RECORD, error="x" * (n % 5000)))
    if n == 1:
        print("writing", flush=True)
"""


def test_record_when_written_and_read_then_is_the_same(tmp_path: Path) -> None:
    driver_records.write(tmp_path, RECORD)
    assert driver_records.read(tmp_path, "p", "a", 1) == RECORD


def test_failed_queries_are_those_of_the_drivers_that_serve(tmp_path: Path) -> None:
    old, new = (QueryFailure(name, NOW, "ValueError: x") for name in ("old", "new"))
    driver_records.write(tmp_path, replace(RECORD, failed_queries=(old,)))
    driver_records.write(tmp_path, replace(RECORD, generation=2, state=DriverState.WAITING))
    assert driver_records.query_failures(tmp_path, "p", ["a", "never started"]) == (old,)
    driver_records.write(tmp_path, replace(RECORD, generation=2, failed_queries=(new,)))
    assert driver_records.query_failures(tmp_path, "p", ["a"]) == (new,)
    driver_records.write(tmp_path, replace(RECORD, generation=2, state=DriverState.FAILED, failed_queries=(new,)))
    driver_records.write(tmp_path, replace(RECORD, state=DriverState.STOPPED, failed_queries=(old,)))
    assert driver_records.query_failures(tmp_path, "p", ["a"]) == ()


def test_record_when_its_writer_is_killed_at_any_moment_then_is_complete(tmp_path: Path) -> None:
    for _ in range(3):
        argv = [sys.executable, "-c", WRITE_FOREVER, str(tmp_path)]
        writer = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        for _ in range(200):  # a concurrent reader never sees half a record
            assert driver_records.read(tmp_path, "p", "a", 1) is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        assert driver_records.read(tmp_path, "p", "a", 1) is not None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pipeline": "p"}', '{"state": "unheard of"}'])
def test_damaged_record_counts_as_none_and_others_are_read(tmp_path: Path, text: str) -> None:
    driver_records.write(tmp_path, RECORD)
    write_atomically(driver_records.app_dir(tmp_path, "p", "a") / "generation-2.json", text)
    assert driver_records.read(tmp_path, "p", "a", 2) is None
    assert driver_records.all_of(tmp_path, "p", "a") == (RECORD,)


def test_all_of_ten_or_more_is_sorted_by_number(tmp_path: Path) -> None:
    for number in (2, 10, 9, 1):
        driver_records.write(tmp_path, replace(RECORD, generation=number))
    assert [r.generation for r in driver_records.all_of(tmp_path, "p", "a")] == [10, 9, 2, 1]


def test_prune_when_many_generations_passed_then_keeps_the_newest(tmp_path: Path) -> None:
    for number in range(1, driver_records.KEPT_GENERATIONS + 4):
        driver_records.write(tmp_path, replace(RECORD, generation=number))
    driver_records.prune(tmp_path, "p", "a")
    kept = [r.generation for r in driver_records.all_of(tmp_path, "p", "a")]
    assert kept == list(range(driver_records.KEPT_GENERATIONS + 3, 3, -1))


def test_write_when_the_folder_is_a_file_then_says_which(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("")
    with pytest.raises(MillraceError, match="run folder"):
        driver_records.write(tmp_path, RECORD)

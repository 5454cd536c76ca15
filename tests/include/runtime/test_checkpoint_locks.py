"""A checkpoint is locked before its query starts, however the script sets its location."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from millrace.model.errors import MillraceError
from millrace.run_folder.lock import CHECKPOINT, AppLock
from millrace.runtime.checkpoint_locks import ROOT, CheckpointLocks, checkpoint_folder

pytestmark = pytest.mark.spark

REPO = Path(__file__).resolve().parents[3]
TAKE = f"""
import sys, time
from pathlib import Path
from millrace.run_folder.lock import AppLock
print(AppLock(Path(sys.argv[1]), "{CHECKPOINT}").try_acquire(), flush=True)
time.sleep(3600)
"""


@pytest.fixture
def writer(spark):
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().writeStream.format("noop")


def elsewhere(folder: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", TAKE, str(folder)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def test_folder_comes_from_the_writer_or_its_start(writer, tmp_path: Path) -> None:
    assert checkpoint_folder(writer, {}) is None
    assert checkpoint_folder(writer, {"checkpointlocation": f"file://{tmp_path}/a"}) == tmp_path / "a"
    assert checkpoint_folder(writer.option("CheckpointLocation", f"{tmp_path}/b"), {}) == tmp_path / "b"


def test_folder_of_a_named_query_is_below_the_sessions(spark, writer, tmp_path: Path) -> None:
    spark.conf.set(ROOT, str(tmp_path))
    try:
        assert checkpoint_folder(writer, {}) is None
        assert checkpoint_folder(writer, {"queryName": "q"}) == tmp_path / "q"
        assert checkpoint_folder(writer.queryName("r"), {}) == tmp_path / "r"
    finally:
        spark.conf.unset(ROOT)


def test_checkpoint_held_by_another_process_is_refused_until_it_dies(writer, tmp_path: Path) -> None:
    options, locks = {"checkpointLocation": str(tmp_path)}, CheckpointLocks()
    with elsewhere(tmp_path) as other:
        assert other.stdout is not None and other.stdout.readline() == "True\n"
        with pytest.raises(MillraceError, match=f"Process {other.pid} uses it"):
            locks.take(writer, options)
        other.kill()
    locks.take(writer, options)
    locks.take(writer, options)  # the script restarts its query
    with elsewhere(tmp_path) as other:
        assert other.stdout is not None and other.stdout.readline() == "False\n"
        other.kill()
    locks.release()
    with elsewhere(tmp_path) as other:
        assert other.stdout is not None and other.stdout.readline() == "True\n"
        other.kill()


def test_checkpoint_that_the_script_has_locked_itself_is_left_to_it(writer, tmp_path: Path) -> None:
    lock, locks = AppLock(tmp_path, CHECKPOINT), CheckpointLocks()
    assert lock.try_acquire()
    assert locks.take(writer, {"checkpointLocation": str(tmp_path)}) is None
    lock.release()
    assert locks.take(writer, {"checkpointLocation": str(tmp_path)}) == tmp_path
    locks.release()


def test_checkpoint_that_cannot_be_locked_stops_no_query(writer) -> None:
    CheckpointLocks().take(writer, {"checkpointLocation": "/proc/nowhere"})

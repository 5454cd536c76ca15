"""A node runs what the newest Deployment assigns to it, and reports it for others to read."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from millrace.fleet import status
from millrace.fleet.assignment import Assignment, DeployedStreams, fixed, number_of, parse
from millrace.fleet.locks import StreamLocks
from millrace.fleet.status import NodeStatus, StreamStatus
from millrace.fleet.streams import Phase
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.model.deployment import AppDeployment, Deployment, node_name
from millrace.model.errors import MillraceError
from millrace.run_folder import driver_records
from millrace.run_folder.driver_records import DriverRecord, DriverState
from millrace.run_folder.lock import CHECKPOINT
from millrace.run_folder.process import this_process

TAKE = f"""
import sys
from pathlib import Path
from millrace.run_folder.lock import AppLock
print(AppLock(Path(sys.argv[1]), "{CHECKPOINT}").try_acquire(), flush=True)
sys.stdin.read()
"""


def test_node_follows_deployments_and_keeps_its_streams_without_the_lake(tmp_path: Path, caplog) -> None:
    apps = {node_name(n): AppDeployment("fleet_node.py", (), 1, 512, 1) for n in range(2)}
    store = DeploymentStore(Lake(tmp_path / "lake"))
    streams = DeployedStreams(Lake(tmp_path / "lake"), "p", "node1")
    assert streams() == Assignment()
    store.commit(Deployment("p", 1, True, apps, ingest={"a": 0, "b": 1, "c": 1}), None)
    assert streams() == Assignment(1, frozenset("bc"), {"a": "node0"})
    store.commit(Deployment("p", 1, True, apps, ingest={"a": 1, "c": 1}), 1)
    assert streams() == Assignment(2, frozenset("ac"))
    shutil.rmtree(tmp_path / "lake")
    (tmp_path / "lake").write_text("in the way")
    assert streams() == streams() == Assignment(2, frozenset("ac"))
    assert caplog.text.count("The node keeps its streams") <= 1


def test_names_of_nodes_and_streams() -> None:
    assert [number_of(node_name(n)) for n in (0, 12)] == [0, 12]
    for app in ("node", "node01", "node-1", "a"):
        with pytest.raises(MillraceError, match="node0, node1"):
            number_of(app)
    assert parse("a,b") == ("a", "b") and parse('["a,b", "c"]') == ("a,b", "c") and parse("") == ()
    assert fixed(parse("a,b"))() == Assignment(0, frozenset("ab"))
    with pytest.raises(MillraceError, match="JSON list"):
        parse("[1]")


def test_status_is_read_as_written_and_says_what_is_wrong(tmp_path: Path) -> None:
    at = datetime(2030, 1, 1, 12, 0, 30, tzinfo=UTC)
    told = (
        StreamStatus("a", Phase.RUNNING, at, sink="path:/out/a"),
        StreamStatus("b", Phase.BLOCKED, at, holder="p/node0 (pid 7)"),
        StreamStatus("c", Phase.FAILED, at, 2, "ValueError: no table.", at),
        StreamStatus("d", Phase.STARTING, at, 1, "poison"),
    )
    assert status.read(tmp_path, "p", "node1") is None
    status.write(tmp_path, "p", "node1", NodeStatus(3, 7, told))
    assert status.read(tmp_path, "p", "node1") == NodeStatus(3, 7, told)
    assert [stream.sentence for stream in told] == [
        "Stream a is running.",
        "Stream b waits for p/node0 (pid 7), which still uses its checkpoint.",
        "Stream c failed 2 times: ValueError: no table. It starts again at 12:00:30 UTC.",
        "Stream d failed: poison.",
    ]


def test_only_a_live_node_that_knows_the_version_has_streams(tmp_path: Path) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    process = this_process()
    driver = DriverRecord("p", "node1", 3, 7, 2, process.pid, process.started, DriverState.RUNNING, at)
    driver = replace(driver, boot_id=process.boot_id, start_ticks=process.start_ticks)
    told = (StreamStatus("a", Phase.BLOCKED, at), StreamStatus("b", Phase.STARTING, at))
    assert status.phases(tmp_path, "p", "node1", 7) == {}
    status.write(tmp_path, "p", "node1", NodeStatus(3, 7, told))
    assert status.phases(tmp_path, "p", "node1", 7) == {}, "no driver has written a record"
    driver_records.write(tmp_path, driver)
    assert status.phases(tmp_path, "p", "node1", 7) == {"a": Phase.BLOCKED, "b": Phase.STARTING}
    assert status.phases(tmp_path, "p", "node1", 8) == {}
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    driver_records.write(tmp_path, replace(driver, pid=ended.pid))
    assert status.phases(tmp_path, "p", "node1", 7) == {}


class FreeJvm:
    """The JVM's half of a lock, always free."""

    def __init__(self, spark: object, path: Path) -> None: ...

    def try_acquire(self) -> bool:
        return True

    def release(self) -> None: ...


def test_lock_of_another_process_is_named_and_free_after_it(tmp_path: Path) -> None:
    def other() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", TAKE, str(tmp_path)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    locks = StreamLocks(FreeJvm)
    with other() as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "True\n"
        assert not locks.take(None, tmp_path) and locks.holder(tmp_path) == f"process {holder.pid}"
        holder.communicate()
    assert locks.holder(tmp_path) is None and locks.take(None, tmp_path) and locks.take(None, tmp_path)
    assert locks.holder(tmp_path) is None, "a look at the lock must not free it"
    for expected in ("False\n", "True\n"):
        with other() as holder:
            assert holder.stdout is not None and holder.stdout.readline() == expected
            holder.communicate()
        locks.free(tmp_path)

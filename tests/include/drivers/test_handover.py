"""How long a change of executors is waited for, by the record that its driver would write."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.drivers.handover import MISSING_S, HandOver, Wait
from millrace.run_folder import driver_records
from millrace.run_folder.arguments import DriverArguments
from millrace.run_folder.discovery import LiveDriver
from millrace.run_folder.driver_records import PENDING_S, DriverRecord, DriverState
from millrace.run_folder.process import ProcessId
from millrace.runtime.agent.lead_times import MARGIN, MOST_S

PENDING = "5 pods are pending: 0/1 nodes are available."
VERSION, SLOTS = 7, 8


def waited(run_dir: Path, version: int, slots: int, since_s: float = 0.0, awaits: str = "") -> Wait:
    """Return the result of a wait that has lasted for some time, given what the driver has recorded."""
    now = datetime.now(UTC)
    arguments = DriverArguments("p", "a", 1, 1, 2, 0, run_dir, "lake", 60.0, 120.0, 30.0, Path("script.py"), ())
    driver = LiveDriver(arguments, (ProcessId.of(os.getpid()),))
    record = DriverRecord("p", "a", 1, version, slots, os.getpid(), 0.0, DriverState.RUNNING, now, awaits=awaits)
    driver_records.write(run_dir, record)
    hand_over = HandOver(run_dir, "p", 120.0, 60.0, leave_at_s=time.monotonic())
    return hand_over.await_slots(driver, VERSION, SLOTS, now - timedelta(seconds=since_s))


def test_later_version_leaves_the_change_open(tmp_path: Path) -> None:
    """The cluster granted all that the later version wants, so it was not full."""
    assert waited(tmp_path, VERSION + 1, 6) == Wait(pending=True)


def test_full_cluster_ends_the_change(tmp_path: Path) -> None:
    assert waited(tmp_path, VERSION, SLOTS) == Wait()
    assert waited(tmp_path, VERSION, 6).error == "6 of 8 slots: the cluster has no room for more executors"


@pytest.mark.parametrize(("since_s", "ends"), [(121.0, False), (MISSING_S - 1.0, False), (MISSING_S + 1.0, True)])
def test_change_without_any_executor_ends_with_the_reason(tmp_path: Path, since_s: float, ends: bool) -> None:
    wait = waited(tmp_path, VERSION - 1, 4, since_s, PENDING)
    late = f"the driver did not apply the change within 1800 s; {PENDING.rstrip('.')}"
    assert wait == (Wait(error=late) if ends else Wait(pending=True))


def test_driver_that_waits_for_nothing_has_the_usual_deadline(tmp_path: Path) -> None:
    late = "the driver did not apply the change within 120 s; read its log"
    assert waited(tmp_path, VERSION - 1, 4, 121.0) == Wait(error=late)


def test_agent_gives_up_on_an_executor_before_its_change_is_ended() -> None:
    assert max(PENDING_S, MARGIN * MOST_S) <= MISSING_S

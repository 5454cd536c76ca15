"""Executors as recorded in the lake, which of them died of memory, and which were taken away."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.lake.executor_runs import TABLE, executor_runs
from millrace.lake.row_codec import executor_row
from millrace.lake.store import Lake
from millrace.model.telemetry import ExecutorRun

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
RUN = ExecutorRun("delays", "delays", 1, "0", "host", 1, 512, NOON)
OF_KUBERNETES = (
    "\nThe executor with id 3 exited with exit code {}.\n\n\nThe API gave the following container statuses:\n"
)
EVICTED = (
    OF_KUBERNETES.format("137(SIGKILL, possible container OOM)")
    + "The API gave the following brief reason: Evicted\nThe API gave the following message: The node was low on "
    "resource: memory."
)


def test_executor_is_read_in_its_last_known_state(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    ended = replace(RUN, ended=NOON + timedelta(seconds=30), reason="Command exited with code 52")
    lake.append(TABLE, [executor_row(RUN), executor_row(replace(RUN, executor="1"))])
    lake.append(TABLE, [executor_row(ended), executor_row(replace(RUN, pipeline="other"))])
    assert set(executor_runs(lake, "delays", NOON)) == {ended, replace(RUN, executor="1")}
    assert executor_runs(lake, "delays", NOON + timedelta(seconds=1)) == (ended,)
    assert executor_runs(Lake(tmp_path / "none"), "delays", NOON) == ()


def test_measured_memory_stays_known_after_the_end(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    grown = replace(RUN, peak_memory_mb=700, measured=NOON + timedelta(seconds=31))
    ended = replace(grown, measured=NOON + timedelta(seconds=32), ended=NOON + timedelta(seconds=30), reason="killed")
    lake.append(TABLE, [executor_row(RUN)])
    lake.append(TABLE, [executor_row(grown)])
    assert executor_runs(lake, "delays", NOON + timedelta(seconds=31)) == (grown,)
    lake.append(TABLE, [executor_row(ended)])
    assert executor_runs(lake, "delays", NOON) == (ended,)


@pytest.mark.parametrize(
    ("reason", "of_memory"),
    [
        ("Command exited with code 52", True),
        ("Command exited with code 137", True),
        ("Executor exited with code: 137", True),
        ("java.lang.OutOfMemoryError: Java heap space", True),
        ("Container killed by YARN for exceeding physical memory limits.", True),
        (OF_KUBERNETES.format("137(SIGKILL, possible container OOM)"), True),
        (OF_KUBERNETES.format("52(JVM OOM)"), True),
        ("exit code: 1\n termination reason: OOMKilled", True),
        (OF_KUBERNETES.format("1(generic, look at logs to clarify)"), False),
        (EVICTED, False),
        ("Command exited with code 1", False),
        ("Executor decommission: no longer needed", False),
        ("worker lost", False),
        ("The executor with id 137 was lost", False),
        (None, False),
    ],
)
def test_death_of_memory_is_recognised_by_its_reason(reason: str | None, of_memory: bool) -> None:
    assert replace(RUN, reason=reason).died_of_memory is of_memory


@pytest.mark.parametrize(
    ("reason", "reclaimed"),
    [
        ("The executor with id 3 was deleted by a user or the framework.", True),
        ("The executor may have been deleted but the driver missed the deletion event. Marking it as failed.", True),
        (EVICTED, True),
        (OF_KUBERNETES.format("143(unexpected)"), True),
        (OF_KUBERNETES.format("1(unexpected)") + "The API gave the following brief reason: Preempting", True),
        (OF_KUBERNETES.format("1(unexpected)") + "The API gave the following brief reason: Terminated", True),
        ("Container container_1 on host: a was preempted.", True),
        ("Container released on a *lost* node", True),
        (OF_KUBERNETES.format("137(SIGKILL, possible container OOM)"), False),
        (OF_KUBERNETES.format("1(generic, look at logs to clarify)") + "container state: terminated", False),
        (OF_KUBERNETES.format("1") + "brief reason: Evicted: Usage of EmptyDir volume exceeds the limit 1Gi.", False),
        ("Command exited with code 1", False),
        (None, False),
    ],
)
def test_executor_that_its_cluster_took_away_did_not_die(reason: str | None, reclaimed: bool) -> None:
    run = replace(RUN, reason=reason)
    assert run.reclaimed is reclaimed
    assert not (reclaimed and (run.died or run.died_of_memory))

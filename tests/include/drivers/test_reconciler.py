"""The reconciler with real processes, records and locks; the drivers are doubles without Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from millrace.drivers import driver_log, failure_history
from millrace.drivers.app_drivers import AppDrivers
from millrace.fleet import status
from millrace.fleet.status import NodeStatus, StreamStatus
from millrace.fleet.streams import Phase
from millrace.lake.deployments import DeploymentStore
from millrace.lake.driver_hosts import this_host
from millrace.lake.row_codec import app_row
from millrace.lake.store import Lake
from millrace.model.decision import Outcome
from millrace.model.deployment import BY_CONTINGENCY, BY_DECISION, BY_VERIFICATION, Deployment
from millrace.model.errors import MillraceError, NotReady
from millrace.model.telemetry import AppMetrics
from millrace.run_folder.driver_records import DriverState
from tests.include.drivers.plant_of_doubles import NAME, DoublesPlant

KILLED = Path(__file__).with_name("killed_reconciler.py")
RECONCILER = "millrace.drivers.app_reconciler:AppReconciler"
HAND_OVER = "millrace.drivers.handover:HandOver"
STAGES = [
    ("millrace.run_folder.generation", "allot", "after"),
    ("millrace.drivers.reconfiguration_log:ReconfigurationLog", "begin", "after"),
    ("millrace.drivers.submit", "start", "after"),
    (HAND_OVER, "await_gate", "after"),
    (HAND_OVER, "end", "after"),
    (HAND_OVER, "await_ready", "after"),
    ("millrace.drivers.reconfiguration_log:ReconfigurationLog", "end", "before"),
    ("millrace.drivers.reconfiguration_log:ReconfigurationLog", "end", "after"),
]
FAILURE_STAGES = [
    (RECONCILER, "_failed", "before"),
    (HAND_OVER, "kill", "before"),
    (HAND_OVER, "kill", "after"),
    ("millrace.drivers.reconfiguration_log:ReconfigurationLog", "end", "before"),
    ("millrace.drivers.reconfiguration_log:ReconfigurationLog", "end", "after"),
    (RECONCILER, "_roll_back", "after"),
]


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[DoublesPlant]:
    made = DoublesPlant(tmp_path)
    yield made
    made.close()


def _killed(plant: DoublesPlant, stage: tuple[str, str, str]) -> None:
    argv = [sys.executable, str(KILLED), str(plant.root), *stage]
    assert subprocess.run(argv).returncode == -signal.SIGKILL


def _nothing_lost_or_doubled(plant: DoublesPlant) -> None:
    committed = plant.committed()
    assert committed == list(range(1, len(committed) + 1))


def test_reconcile_without_a_deployment_does_nothing(plant: DoublesPlant) -> None:
    assert plant.reconciler().reconcile() == ()
    assert plant.reconciler().status() == ()


def test_launch_makes_one_driver_ready_and_a_repeat_changes_nothing(plant: DoublesPlant) -> None:
    plant.deploy()
    (change,) = plant.reconciler().reconcile()
    assert (change.outcome, change.from_version, change.to_version) == (Outcome.READY, None, 1)
    assert change.downtime_s is None and change.ended is not None
    assert plant.reconciler().reconcile() == ()
    assert plant.versions() == [(1, 1)]
    assert [e.outcome for e in plant.history()] == [Outcome.READY]


def test_reconcile_bounds_the_log_of_a_running_driver(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    log = driver_log.path(plant.root / "log", NAME, NAME, 1)
    os.truncate(log, driver_log.MOST_BYTES + 1)
    assert plant.reconciler().reconcile() == ()
    assert log.stat().st_size < driver_log.MOST_BYTES < driver_log.former(log).stat().st_size
    assert plant.versions() == [(1, 1)]


@pytest.mark.parametrize("method", ["hand-over", "plain"])
def test_reconcile_when_a_new_version_comes_then_hands_over_without_loss(plant: DoublesPlant, method) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.deploy(slots=2)
    begun = time.monotonic()
    (change,) = plant.reconciler(method).reconcile()
    took_s = time.monotonic() - begun
    assert (change.outcome, change.from_version, change.to_version) == (Outcome.READY, 1, 2)
    assert change.downtime_s is not None and 0 <= change.downtime_s <= took_s
    assert plant.versions() == [(2, 2)]
    _nothing_lost_or_doubled(plant)


@pytest.mark.parametrize(
    ("host", "seconds", "period_s", "starts"),
    [
        ("far", 5, 60.0, False),
        ("far", 65, 60.0, True),
        ("far", 150, 600.0, False),
        ("far", 605, 600.0, True),
        (this_host(), 5, 60.0, True),
        (None, 5, 60.0, True),
    ],
)
def test_driver_on_another_host_is_not_started_again(
    plant: DoublesPlant, host: str | None, seconds: float, period_s: float, starts: bool
) -> None:
    plant.spec = plant.spec.model_copy(update={"period_s": period_s})
    plant.deploy()
    seen = AppMetrics(NAME, NAME, datetime.now(UTC) - timedelta(seconds=seconds), 1, 0.5, 1, 60.0, host)
    plant.deployments.lake.append("telemetry/apps", [app_row(seen)])
    if starts:
        assert [change.outcome for change in plant.reconciler().reconcile()] == [Outcome.READY]
        return
    with pytest.raises(MillraceError, match=r"host of the drivers: got .*; allowed: far, whose driver was seen"):
        plant.reconciler().reconcile()
    assert "host far runs its driver" in (plant.reconciler().problem() or "")
    assert plant.versions() == []


def test_new_version_of_the_same_content_leaves_the_driver_alone(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.deploy()
    assert plant.reconciler().reconcile() == ()
    assert plant.versions() == [(1, 1)]


@pytest.mark.parametrize("left", [(), ("hangs",)], ids=["none", "a start that hangs"])
def test_node_that_is_no_longer_needed_ends_once_others_run_its_streams(tmp_path: Path, left: tuple[str, ...]) -> None:
    plant = DoublesPlant(tmp_path, stop_s=1.0)
    plant.deploy()
    plant.reconciler().reconcile()
    stream = StreamStatus("a", Phase.RUNNING, datetime.now(UTC))
    status.write(tmp_path / "run", NAME, NAME, NodeStatus(1, 1, (stream,)))
    plant.deploy(standby=True)
    (change,) = plant.reconciler().reconcile()
    assert change.outcome is Outcome.OPEN and plant.versions() == [(1, 1)]
    assert plant.reconciler().problem() is None
    hung = tuple(StreamStatus(name, Phase.STARTING, datetime.now(UTC), abandoned=True) for name in left)
    status.write(tmp_path / "run", NAME, NAME, NodeStatus(1, 2, hung))
    (change,) = plant.reconciler().reconcile()
    assert change.outcome is Outcome.STOPPED and plant.versions() == []
    assert plant.reconciler().reconcile() == () and plant.reconciler().problem() is None
    plant.deploy()
    (change,) = plant.reconciler().reconcile()
    assert change.outcome is Outcome.READY
    plant.close()


def test_node_that_the_spec_no_longer_has_is_no_problem_while_it_hands_its_streams_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = SimpleNamespace(pid=7)
    monkeypatch.setattr(AppDrivers, "live", lambda _: [SimpleNamespace(generation=1, processes=[process])])
    store = DeploymentStore(Lake(tmp_path / "lake"))
    drivers, now = AppDrivers(tmp_path, NAME, "node1", store), datetime.now(UTC)
    moves = Deployment(NAME, 2, True, {}, ingest={"a": 0, "b": 1})
    assert drivers.problem(moves, now) is None
    assert drivers.problem(replace(moves, ingest={"a": 0, "b": 0}), now) is None
    told = "node1 was stopped, but its driver still runs (pid 7)."
    assert drivers.problem(replace(moves, running=False), now) == told


def test_renamed_app_starts_once_its_former_driver_has_ended(plant: DoublesPlant) -> None:
    first = plant.deploy()
    plant.reconciler().reconcile()
    plant.deployments.commit(replace(first, apps={"renamed": first.apps[NAME]}), 1)
    changes = {change.app: change for change in plant.reconciler().reconcile()}
    former, renamed = changes[NAME], changes["renamed"]
    assert (former.outcome, renamed.outcome) == (Outcome.STOPPED, Outcome.READY)
    assert former.ended is not None and former.ended <= renamed.started
    _nothing_lost_or_doubled(plant)


def test_detached_driver_is_left_alone_and_adopted_as_it_runs(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.deploy(detached=True)
    assert plant.reconciler().reconcile() == ()
    plant.deploy()
    assert plant.reconciler().reconcile() == ()
    assert plant.versions() == [(1, 1)]


def test_detached_driver_that_dies_is_restarted_once_attached(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.deploy(detached=True)
    plant.kill(plant.live()[0])
    assert plant.reconciler().reconcile() == () and plant.live() == ()
    assert plant.reconciler().problem() is None
    plant.deploy()
    plant.reconciler().reconcile()
    assert plant.versions() == [(2, 3)]


def test_stop_and_launch_stop_and_start_once(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.deploy(running=False)
    (change,) = plant.reconciler().reconcile()
    assert (change.outcome, change.from_version, change.to_version) == (Outcome.STOPPED, 1, None)
    assert plant.live() == () and plant.reconciler().reconcile() == ()
    plant.deploy()
    (change,) = plant.reconciler().reconcile()
    assert (change.outcome, change.from_version, change.downtime_s) == (Outcome.READY, None, None)
    assert plant.versions() == [(2, 3)]


def test_drivers_that_end_with_their_owner_run_again_with_the_next_without_a_failure(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.reconciler().stop_drivers()
    assert plant.live() == ()
    plant.reconciler().reconcile()
    assert plant.versions() == [(2, 1)]
    assert [e.outcome for e in plant.history()] == [Outcome.READY, Outcome.READY]
    _nothing_lost_or_doubled(plant)


def test_killed_driver_is_restarted_exactly_once(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.kill(plant.live()[0])
    assert [r.state for r in plant.reconciler().status()] == [DriverState.FAILED]
    (change,) = plant.reconciler().reconcile()
    assert (change.outcome, change.from_version, change.to_version, change.decision_id) == (Outcome.READY, 1, 1, None)
    assert change.downtime_s is not None
    assert plant.versions() == [(2, 1)]
    _nothing_lost_or_doubled(plant)


def test_restart_for_a_version_that_changes_only_others_is_not_decided_by_anybody(plant: DoublesPlant) -> None:
    first = plant.deploy()
    plant.reconciler().reconcile()
    plant.kill(plant.live()[0])
    plant.deployments.commit(replace(first, author="decision", decision_id="d9"), 1)
    (change,) = plant.reconciler().reconcile()
    assert (change.outcome, change.from_version, change.to_version, change.decision_id) == (Outcome.READY, 1, 2, None)


def test_driver_killed_repeatedly_is_restarted_with_growing_delays(plant) -> None:
    plant.deploy()
    now = [datetime.now(UTC)]
    reconciler = plant.reconciler(clock=lambda: now[0])
    reconciler.reconcile()
    for delay_s in (0, 10, 20, 40):
        plant.kill(plant.live()[0])
        if delay_s:
            assert reconciler.reconcile() == ()
            now[0] += timedelta(seconds=delay_s - 1)
            assert reconciler.reconcile() == ()
            now[0] += timedelta(seconds=1)
        assert [c.outcome for c in reconciler.reconcile()] == [Outcome.READY]
        assert len(plant.live()) == 1


def test_reconcile_when_two_drivers_run_then_keeps_the_newest_generation(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    (old,) = plant.live()
    plant.deploy(slots=2)
    _killed(plant, STAGES[2])  # the successor was started, and its reconciler is gone
    plant.until(lambda: len(plant.live()) == 2)
    plant.reconciler().reconcile()
    assert plant.versions() == [(2, 2)] and not old.alive()


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES, ids=lambda s: "-".join(s).rsplit(":")[-1])
def test_reconcile_continues_after_one_killed_mid_hand_over(plant: DoublesPlant, stage: tuple[str, str, str]) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.deploy(slots=2)
    _killed(plant, stage)
    plant.reconciler().reconcile()
    assert [version for _, version in plant.versions()] == [2]
    assert Outcome.OPEN not in [e.outcome for e in plant.history()]
    assert sum(e.outcome is Outcome.READY and e.to_version == 2 for e in plant.history()) == 1
    assert plant.reconciler().reconcile() == ()
    _nothing_lost_or_doubled(plant)


@pytest.mark.slow
@pytest.mark.parametrize("stage", [STAGES[4], STAGES[6]], ids=lambda s: "-".join(s).rsplit(":")[-1])
def test_reconcile_continues_after_one_killed_while_stopping(plant: DoublesPlant, stage) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.deploy(running=False)
    _killed(plant, stage)
    plant.reconciler().reconcile()
    assert plant.live() == ()
    assert [e.outcome for e in plant.history()] == [Outcome.STOPPED, Outcome.READY]


@pytest.mark.parametrize("behaviour", ["import-error", "stillborn", "mute"])
def test_failed_successor_restores_the_last_ready_content(plant: DoublesPlant, behaviour: str) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.deploy(behaviour)
    if behaviour == "mute":
        plant.spec = plant.spec.model_copy(update={"ready_deadline_s": 5.0})
    changes = plant.reconciler().reconcile()
    assert (changes[0].outcome, changes[0].to_version) == (Outcome.ROLLED_BACK, 2)
    words = {
        "import-error": "ModuleNotFoundError",
        "stillborn": "OutOfMemoryError",
        "mute": "no progress for 5 s",
    }
    assert words[behaviour] in changes[0].error
    latest = plant.deployments.latest(NAME)
    assert (latest.version, latest.author, latest.apps[NAME].args) == (3, "reconciler", (str(plant.rows),))
    assert len(plant.live()) == 1
    # the predecessor was never stopped, unless its successor only failed behind the gate
    assert plant.versions() == ([(3, 3)] if behaviour == "mute" else [(1, 1)])
    assert plant.reconciler().reconcile() == ()
    _nothing_lost_or_doubled(plant)


def test_apps_that_fail_together_are_all_restored_at_once(plant: DoublesPlant) -> None:
    first = plant.deploy()
    good = first.apps[NAME]
    names = ("a", "b", "c")
    rows = {name: replace(good, args=(f"{good.args[0]}-{name}",)) for name in names}
    plant.deployments.commit(replace(first, apps=rows), 1)
    plant.reconciler().reconcile()
    bad = {name: replace(app, args=(*app.args, "import-error")) for name, app in rows.items()}
    plant.deployments.commit(replace(first, apps=bad), 2)
    changes = plant.reconciler().reconcile()
    assert [(c.outcome, c.to_version) for c in changes if c.outcome is not Outcome.READY] == [
        (Outcome.ROLLED_BACK, 3)
    ] * 3
    latest = plant.deployments.latest(NAME)
    assert latest is not None and (latest.version, latest.author, latest.apps) == (6, "reconciler", rows)
    assert len(plant.live()) == 3 and plant.reconciler().problem() is None


@pytest.mark.slow
@pytest.mark.parametrize("stage", FAILURE_STAGES, ids=lambda s: "-".join(s).rsplit(":")[-1])
def test_reconcile_continues_after_one_killed_mid_roll_back(plant, stage) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.deploy("import-error")
    _killed(plant, stage)
    plant.reconciler().reconcile()
    latest = plant.deployments.latest(NAME)
    assert (latest.version, latest.author) == (3, "reconciler")
    assert plant.versions() == [(1, 1)]
    assert Outcome.OPEN not in [e.outcome for e in plant.history()]
    assert plant.reconciler().reconcile() == ()


def test_content_that_fails_twice_is_retried_with_growing_delays(
    plant: DoublesPlant,
) -> None:
    plant.deploy("import-error")
    now = [datetime.now(UTC)]
    reconciler = plant.reconciler(clock=lambda: now[0])
    assert [c.outcome for c in reconciler.reconcile()] == [Outcome.FAILED]
    assert reconciler.reconcile() == ()  # not yet: no storm
    now[0] += timedelta(seconds=10)
    assert [c.outcome for c in reconciler.reconcile()] == [Outcome.CIRCUIT_OPEN]
    for wait in (*(timedelta(minutes=m) for m in (1, 5, 15)), timedelta(hours=1), timedelta(hours=1)):
        now[0] += wait - timedelta(seconds=1)
        assert reconciler.reconcile() == () and plant.live() == ()
        due = now[0] + timedelta(seconds=2, microseconds=-now[0].microsecond)  # rounded up
        assert (
            "ModuleNotFoundError" in reconciler.problem() and f"Next try at {due:%H:%M:%S} UTC" in reconciler.problem()
        )
        now[0] += timedelta(seconds=1)
        assert [c.outcome for c in reconciler.reconcile()] == [Outcome.CIRCUIT_OPEN]
    shown = reconciler.status()[0]
    assert shown.state is DriverState.FAILED and shown.error == "ModuleNotFoundError: No module named 'nowhere'"
    plant.deploy()
    assert [c.outcome for c in reconciler.reconcile()] == [Outcome.READY]
    assert reconciler.problem() is None


def test_failed_content_wanted_again_opens_the_circuit(
    plant: DoublesPlant,
) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.deploy("import-error", author="decision")
    assert [c.outcome for c in plant.reconciler().reconcile()] == [Outcome.ROLLED_BACK]
    plant.deploy("import-error", author="decision")
    assert [c.outcome for c in plant.reconciler().reconcile()] == [Outcome.CIRCUIT_OPEN]
    assert plant.versions() == [(1, 1)]
    assert plant.deployments.latest(NAME).author == "reconciler"
    errors = [r.error for r in plant.reconciler().status()]
    assert errors == ["ModuleNotFoundError: No module named 'nowhere'", None]


def test_failed_app_waits_although_a_decision_has_changed_another_one(plant: DoublesPlant) -> None:
    first, now = plant.deploy("import-error"), [datetime.now(UTC)]
    reconciler = plant.reconciler(clock=lambda: now[0])
    assert [c.outcome for c in reconciler.reconcile()] == [Outcome.FAILED]
    plant.deployments.commit(replace(first, author="decision", decision_id="d9"), 1)
    assert reconciler.reconcile() == ()
    now[0] += timedelta(seconds=11)
    assert [(c.outcome, c.decision_id) for c in reconciler.reconcile()] == [(Outcome.CIRCUIT_OPEN, "d9")]


def test_ready_script_that_raises_is_restarted_and_never_rolled_back(
    plant: DoublesPlant,
) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.deploy("throws", "3")
    now = [datetime.now(UTC)]
    reconciler = plant.reconciler(clock=lambda: now[0])
    reconciler.reconcile()
    plant.until(lambda: not plant.live())
    now[0] += timedelta(seconds=1)
    assert [(c.outcome, c.error) for c in reconciler.reconcile()] == [(Outcome.FAILED, "ValueError: poison")]
    assert reconciler.reconcile() == ()
    now[0] += timedelta(seconds=10)
    assert [c.outcome for c in reconciler.reconcile()] == [Outcome.READY]
    plant.until(lambda: not plant.live())
    now[0] += timedelta(seconds=1)
    assert [c.outcome for c in reconciler.reconcile()] == [Outcome.CIRCUIT_OPEN]
    assert plant.history()[0].outcome is Outcome.CIRCUIT_OPEN
    assert reconciler.reconcile() == () and plant.live() == ()
    now[0] += timedelta(minutes=5)
    assert [c.outcome for c in reconciler.reconcile()] == [Outcome.READY]
    assert plant.deployments.latest(NAME).version == 2
    plant.until(lambda: not plant.live())
    assert reconciler.status()[0].error == "ValueError: poison"


def test_missing_script_fails_without_starting_anything(plant: DoublesPlant) -> None:
    plant.deploy()
    Path(plant.spec.script).unlink()
    (change,) = plant.reconciler().reconcile()
    assert change.outcome is Outcome.FAILED and "script" in change.error and "existing file" in change.error
    assert plant.live() == ()
    assert plant.reconciler().status()[0].error == change.error
    assert plant.reconciler().reconcile() == ()


def test_completed_batch_script_is_not_run_again(plant: DoublesPlant) -> None:
    plant.deploy("batch")
    assert [c.outcome for c in plant.reconciler().reconcile()] == [Outcome.READY]
    plant.until(lambda: not plant.live())
    assert plant.reconciler().problem() is None
    assert [c.outcome for c in plant.reconciler().reconcile()] == [Outcome.FINISHED]
    assert plant.reconciler().reconcile() == () and plant.reconciler().problem() is None
    (record,) = plant.reconciler().status()
    assert record.state is DriverState.COMPLETED
    finished = plant.deployments.latest(NAME)
    assert (finished.running, finished.finished, finished.slots) == (False, record.since, 0)
    plant.deploy("batch")  # requested once more by a person
    (again,) = plant.reconciler().reconcile()
    assert (again.outcome, again.from_version, again.downtime_s) == (Outcome.READY, None, None)


def test_pipeline_of_several_apps_has_finished_once_all_have(plant: DoublesPlant) -> None:
    first = plant.deploy("batch")
    batch, rows = first.apps[NAME], str(plant.rows)
    plant.deployments.commit(replace(first, apps={"a": batch, "b": replace(batch, args=(f"{rows}-b",))}), 1)
    plant.reconciler().reconcile()
    plant.until(lambda: len(plant.live()) == 1)
    assert plant.reconciler().reconcile() == (), "b runs on"
    plant.deployments.commit(replace(first, apps={"a": batch, "b": replace(batch, args=(f"{rows}-b", "batch"))}), 2)
    plant.reconciler().reconcile()
    plant.until(lambda: not plant.live())
    changes = plant.reconciler().reconcile()
    assert {(change.app, change.outcome) for change in changes} == {("a", Outcome.FINISHED), ("b", Outcome.FINISHED)}
    latest = plant.deployments.latest(NAME)
    assert latest is not None and (latest.state, latest.slots) == ("finished", 0)
    assert plant.reconciler().reconcile() == () and plant.reconciler().problem() is None


@pytest.mark.parametrize("author", [BY_DECISION, BY_VERIFICATION, BY_CONTINGENCY, "reconciler"])
def test_batch_script_is_not_run_again_after_a_decision_about_its_run(plant: DoublesPlant, author: str) -> None:
    plant.deploy("batch")
    plant.reconciler().reconcile()
    plant.until(lambda: not plant.live())
    plant.deploy("batch", slots=2, author=author)
    assert [c.outcome for c in plant.reconciler().reconcile()] == [Outcome.FINISHED]
    finished = plant.deployments.latest(NAME)
    assert plant.live() == () and not finished.running and finished.apps[NAME].slots == 2


def test_deaf_predecessor_is_killed_after_the_deadline(plant: DoublesPlant) -> None:
    plant.deploy("deaf")
    plant.reconciler().reconcile()
    plant.spec = plant.spec.model_copy(update={"stop_deadline_s": 0.5})
    plant.deploy()
    assert [c.outcome for c in plant.reconciler().reconcile()] == [Outcome.READY]
    assert plant.versions() == [(2, 2)]
    assert plant.reconciler().reconcile() == ()
    assert failure_history.load(plant.root / "run" / NAME / NAME).contents == {}  # its end causes no error


def test_reconcile_when_called_concurrently_then_one_driver_runs(plant: DoublesPlant) -> None:
    plant.deploy()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: plant.reconciler().reconcile(), range(4)))
    assert sorted(len(r) for r in results) == [0, 0, 0, 1]
    assert plant.versions() == [(1, 1)]


def test_reconcile_is_not_ready_while_another_is_at_work(plant: DoublesPlant) -> None:
    from filelock import FileLock

    plant.deploy()
    (plant.root / "run" / NAME).mkdir(parents=True)
    with FileLock(plant.root / "run" / NAME / "reconcile.lock"), pytest.raises(NotReady):
        plant.reconciler().reconcile(wait_s=0)


def test_reconcile_when_its_state_file_is_damaged_then_continues(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    (plant.root / "run" / NAME / NAME / "trouble.json").write_text("{")
    assert plant.reconciler().reconcile() == ()
    assert plant.versions() == [(1, 1)]


def test_reconcile_when_the_run_folder_cannot_be_written_then_says_so(plant: DoublesPlant) -> None:
    plant.deploy()
    (plant.root / "run").write_text("")
    with pytest.raises(MillraceError, match="run folder"):
        plant.reconciler().reconcile()

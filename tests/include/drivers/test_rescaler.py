"""A change of state partitions either completes or is undone, whatever fails or is killed in between."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.model.decision import Outcome
from millrace.model.deployment import Deployment
from millrace.run_folder.rescale_record import copy_of
from tests.include.drivers.plant_of_doubles import NAME, DoublesPlant

KILLED = Path(__file__).with_name("killed_reconciler.py")
PARTITIONS = "millrace.drivers.rescaler:Rescaler"


class StatefulPlant(DoublesPlant):
    """Drivers that start with state in 4 partitions."""

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def number(self) -> str:
        return (self.checkpoint / "partitions").read_text()

    @property
    def copied(self) -> bool:
        return Path(copy_of(str(self.checkpoint))).exists()

    def begin(self, *behaviour: str) -> None:
        self.deploy("state", *behaviour, partitions=4)
        (change,) = self.reconciler().reconcile()
        assert change.outcome is Outcome.READY

    def newest(self) -> Deployment:
        newest = self.deployments.latest(NAME)
        assert newest is not None
        return newest

    def is_whole(self, partitions: int) -> None:
        """One driver runs with state and a Deployment of this number, without loss and without a copy."""
        assert (self.number, self.newest().apps[NAME].max_parallelism) == (str(partitions), partitions)
        ((_, version),) = self.versions()
        deployed = self.deployments.get(NAME, version)
        assert deployed is not None and deployed.apps[NAME].max_parallelism == partitions
        assert not self.copied
        assert Outcome.OPEN not in [entry.outcome for entry in self.history()]
        committed = self.committed()
        assert committed == list(range(1, len(committed) + 1))


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[StatefulPlant]:
    made = StatefulPlant(tmp_path)
    yield made
    made.close()


def test_new_number_applies_with_the_next_driver_and_the_copy_is_deleted_after_its_commit(plant: StatefulPlant) -> None:
    plant.begin()
    plant.deploy("state", partitions=7)
    (change,) = plant.reconciler().reconcile()
    assert (change.outcome, change.tier, change.from_version, change.to_version) == (Outcome.READY, "T2", 1, 2)
    assert change.downtime_s is not None
    assert plant.copied
    assert plant.reconciler().reconcile() == ()
    plant.is_whole(7)
    plant.deploy("state", partitions=4)
    plant.reconciler().reconcile()
    plant.reconciler().reconcile()
    plant.is_whole(4)


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        ("heap", "q keeps its state in HDFSBackedStateStoreProvider"),
        ("files", "q writes to FileSink"),
        ("silent", "its checkpoints are not known yet"),
    ],
)
def test_unsupported_rescale_is_refused_and_the_driver_keeps_running(
    plant: StatefulPlant, behaviour: str, why: str
) -> None:
    plant.begin(behaviour)
    plant.deploy("state", behaviour, partitions=7)
    (refused,) = plant.reconciler().reconcile()
    assert refused.outcome is Outcome.ROLLED_BACK and why in (refused.error or "")
    assert "stays in 4 partitions" in plant.newest().reason
    assert [generation for generation, _ in plant.versions()] == [1]
    plant.is_whole(4)
    assert plant.reconciler().reconcile() == ()


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", ["refuses", "dies copying", "dies changing"])
def test_failed_job_keeps_the_former_number(plant: StatefulPlant, behaviour: str) -> None:
    plant.begin()
    (plant.root / "behaviour").write_text(behaviour)
    plant.deploy("state", partitions=7)
    failed, healed = plant.reconciler().reconcile()
    assert (failed.outcome, failed.to_version, healed.outcome) == (Outcome.ROLLED_BACK, 2, Outcome.READY)
    plant.is_whole(4)
    (plant.root / "behaviour").unlink()
    plant.deploy("state", partitions=7)
    plant.reconciler().reconcile()
    plant.reconciler().reconcile()
    plant.is_whole(7)


def test_driver_that_fails_before_its_first_commit_undoes_the_change(plant: StatefulPlant) -> None:
    plant.begin("poison")
    plant.deploy("state", "poison", partitions=7)
    failed, healed = plant.reconciler().reconcile()
    assert (failed.outcome, healed.outcome) == (Outcome.ROLLED_BACK, Outcome.READY)
    assert "7 partitions" in plant.newest().reason
    plant.is_whole(4)


def test_copy_is_kept_while_the_driver_is_idle_and_restored_if_its_first_batch_fails(
    plant: StatefulPlant,
) -> None:
    plant.begin("idle", "poison")
    plant.deploy("state", "idle", "poison", partitions=7)
    (change,) = plant.reconciler().reconcile()
    assert change.outcome is Outcome.READY
    assert plant.reconciler().reconcile() == () and plant.copied
    (plant.root / "rows come").touch()
    plant.until(lambda: not plant.live())
    plant.reconciler().reconcile()
    plant.is_whole(4)


def test_long_job_is_awaited_by_later_calls(plant: StatefulPlant) -> None:
    plant.begin()
    (plant.root / "behaviour").write_text("slow")
    plant.deploy("state", partitions=7)
    for _ in range(2):
        (change,) = plant.reconciler().reconcile(patience_s=0)
        assert (change.outcome, plant.live()) == (Outcome.OPEN, ())
        assert plant.reconciler().problem() is None
    (plant.root / "go on").touch()
    (change,) = plant.reconciler().reconcile()
    assert (change.outcome, change.from_version, change.to_version) == (Outcome.READY, 1, 2)
    assert change.downtime_s is not None
    assert [entry.outcome for entry in plant.history()] == [Outcome.READY, Outcome.READY]
    plant.reconciler().reconcile()
    plant.is_whole(7)


def test_query_without_state_is_only_restarted(plant: StatefulPlant) -> None:
    plant.begin("stateless")
    (plant.checkpoint / "partitions").write_text("7")  # nothing in it depends on the number
    plant.deploy("state", "stateless", partitions=7)
    (change,) = plant.reconciler().reconcile()
    assert change.outcome is Outcome.READY and not plant.copied


def test_deleted_checkpoint_starts_over(plant: StatefulPlant) -> None:
    plant.begin("heap")
    plant.deploy(running=False)
    plant.reconciler().reconcile()
    (plant.checkpoint / "partitions").unlink()
    plant.checkpoint.rmdir()
    plant.deploy("state", "heap", partitions=7)
    (change,) = plant.reconciler().reconcile()
    assert change.outcome is Outcome.READY
    plant.reconciler().reconcile()
    plant.is_whole(7)


@pytest.mark.slow
def test_version_with_the_former_number_restores_the_copy(plant: StatefulPlant) -> None:
    plant.begin("idle")
    plant.deploy("state", "idle", partitions=7)
    plant.reconciler().reconcile()
    plant.deploy("state", "idle", partitions=4)
    plant.reconciler().reconcile()
    plant.is_whole(4)


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", ["", "refuses"])
@pytest.mark.parametrize(
    "stage",
    [
        ("millrace.run_folder.rescale_record", "write", "after"),
        ("millrace.drivers.launcher:Launcher", "rescale", "after"),
        (PARTITIONS, "change", "after"),
        ("millrace.drivers.launcher:Launcher", "start", "after"),
    ],
)
def test_killed_reconciler_leaves_nothing_half_done(
    plant: StatefulPlant, stage: tuple[str, str, str], behaviour: str
) -> None:
    plant.begin()
    (plant.root / "behaviour").write_text(behaviour)
    plant.deploy("state", partitions=7)
    argv = [sys.executable, str(KILLED), str(plant.root), *stage]
    assert subprocess.run(argv).returncode == -signal.SIGKILL
    plant.reconciler().reconcile()
    plant.reconciler().reconcile()
    plant.is_whole(plant.newest().apps[NAME].max_parallelism)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_reconciler_killed_during_an_undo_continues_it(plant: StatefulPlant, when: str) -> None:
    plant.begin()
    (plant.root / "behaviour").write_text("dies changing")
    plant.deploy("state", partitions=7)
    argv = [sys.executable, str(KILLED), str(plant.root), "millrace.drivers.rescaler", "go_back", when]
    assert subprocess.run(argv).returncode == -signal.SIGKILL
    plant.reconciler().reconcile()
    plant.is_whole(4)

"""Following a driver that somebody else started, by the heartbeats that it would write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.drivers.external_reconciler import ExternalReconciler
from millrace.drivers.handover import MISSING_S
from millrace.drivers.restart_command import restart_command
from millrace.lake.control_tables import ControlTables
from millrace.lake.row_codec import app_row
from millrace.lake.store import Lake
from millrace.model.attached_driver import AttachedDriver, settings_of, settings_to_change
from millrace.model.codec import from_json, to_json
from millrace.model.decision import LIVE, RESTART, Outcome
from millrace.model.deployment import Deployment, ExecutorSize
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import AppMetrics

NAME = "orders"
SPEC = PipelineSpec.model_validate(
    {"name": NAME, "submit": {"launcher": "external"}, "slots": {"min": 1, "max": 8, "start": 2}}
)
DRIVER = AttachedDriver(
    "app-1 (orders) on host-1, process 7",
    version=0,
    slots=1,
    every_s=20.0,
    settings={"spark.executor.memory": "1g", "spark.executor.cores": "1", "spark.driver.memory": "1024m"},
)
UNABLE = "its master is local[4], which has no executors."


class World:
    """A lake, a clock that moves when somebody waits, and a driver that carries out what it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.tables = ControlTables(Lake(folder / "lake"))
        self.now = datetime.now(UTC)  # Deployments are committed by the real clock
        self.granted: int | None = None
        self.driver, self.generation = DRIVER, 1
        self.meanwhile: Callable[[], object] = lambda: None
        self.reconciler = ExternalReconciler(NAME, self.tables, 60.0, lambda: self.now, self.wait)

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.meanwhile()
        if self.granted is not None:
            newest = self.tables.deployments.latest(NAME)
            assert newest is not None
            self.beat(version=newest.version, slots=self.granted)

    def deploy(self, **changes: object) -> Deployment:
        latest = self.tables.deployments.latest(NAME)
        content = latest or SPEC.first_deployment()
        running = bool(changes.pop("running", True))
        app = replace(content.apps[NAME], **changes)
        wanted = replace(content, apps={NAME: app}, running=running)
        return self.tables.deployments.commit(wanted, None if latest is None else latest.version)

    def beat(self, generation: int | None = None, **fields: object) -> None:
        self.driver, self.generation = replace(self.driver, **fields), generation or self.generation
        row = AppMetrics(NAME, NAME, self.now, self.generation, None, None, 0.0, "host-1", self.driver)
        self.tables.lake.append("telemetry/apps", [app_row(row)])

    def outcomes(self) -> list[tuple[str, Outcome, str | None]]:
        patience_s = None if self.granted is not None else 0.0
        return [(c.tier, c.outcome, c.error) for c in self.reconciler.reconcile(patience_s=patience_s)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_pipeline_without_a_driver_names_the_line_for_the_script(world: World) -> None:
    world.deploy()
    assert world.outcomes() == []
    problem = world.reconciler.problem()
    assert problem is not None and 'millrace.attach(spark, "orders", lake=' in problem
    assert not world.reconciler.running()


def test_driver_that_attaches_is_recorded_and_gets_its_slots(world: World) -> None:
    world.deploy()
    world.beat()
    world.granted = 2
    assert world.outcomes() == [(RESTART, Outcome.READY, None), (LIVE, Outcome.READY, None)]
    assert world.outcomes() == []
    assert world.reconciler.problem() is None


def test_change_is_live_and_waits_for_the_driver(world: World) -> None:
    world.deploy()
    world.beat(version=1, slots=2)
    world.outcomes()
    world.deploy(slots=5)
    world.granted = 5
    (change,) = world.reconciler.reconcile()
    assert (change.tier, change.outcome, change.from_version, change.to_version) == (LIVE, Outcome.READY, 1, 2)


def test_cluster_without_room_and_silent_agent_end_a_change(world: World) -> None:
    world.deploy()
    world.beat(version=1, slots=2)
    world.outcomes()
    world.deploy(slots=5)
    world.granted = 3
    assert world.outcomes() == [(LIVE, Outcome.FAILED, "3 of 5 slots: the cluster has no room for more executors")]
    world.deploy(slots=6)
    world.granted = None
    assert world.outcomes() == [(LIVE, Outcome.OPEN, None)]
    world.now += timedelta(seconds=90)
    world.beat()
    ((_, outcome, error),) = world.outcomes()
    assert outcome is Outcome.FAILED and error is not None and "did not apply the change within 60 s" in error


def test_change_that_a_newer_version_overtakes_is_superseded(world: World) -> None:
    world.deploy()
    world.beat(version=1, slots=2)
    world.outcomes()
    world.deploy(slots=5)
    world.beat(awaits="3 pods are pending: 0/1 nodes are available.")
    world.meanwhile = lambda: world.beat(version=world.deploy(slots=3).version, slots=3, awaits="")
    assert [c.outcome for c in world.reconciler.reconcile(patience_s=60.0)] == [Outcome.OPEN]
    assert world.outcomes() == [(LIVE, Outcome.FAILED, "superseded by version 3"), (LIVE, Outcome.READY, None)]


def test_pending_executors_are_waited_for_and_refused_ones_are_named(world: World) -> None:
    world.deploy()
    world.beat(version=1, slots=2)
    world.outcomes()
    world.deploy(slots=5)
    world.beat(awaits="3 pods are pending: 0/1 nodes are available.")
    assert world.outcomes() == [(LIVE, Outcome.OPEN, None)]
    world.now += timedelta(seconds=90)
    world.beat()
    assert world.outcomes() == [(LIVE, Outcome.OPEN, None)], "beyond the deadline of 60 s"
    world.driver = replace(world.driver, awaits="3 of 5 pods exist: exceeded quota.")
    world.granted = 3
    assert world.outcomes() == [(LIVE, Outcome.FAILED, "3 of 5 slots: 3 of 5 pods exist: exceeded quota")]


def test_change_without_any_executor_ends_with_the_reason(world: World) -> None:
    world.deploy()
    world.beat(version=1, slots=2)
    world.outcomes()
    world.deploy(slots=5)
    world.outcomes()
    world.now += timedelta(seconds=MISSING_S + 1.0)
    world.beat(awaits="5 pods are pending: 0/1 nodes are available.")
    late = "the driver did not apply the change within 1800 s; 5 pods are pending: 0/1 nodes are available"
    assert world.outcomes() == [(LIVE, Outcome.FAILED, late)]


def test_silent_driver_is_named_with_who_has_to_start_it(world: World) -> None:
    world.deploy()
    world.beat(version=1, slots=2)
    world.outcomes()
    world.wait(61.0)
    problem = world.reconciler.problem()
    assert problem is not None and "app-1 (orders) on host-1, process 7, was last seen 61 s ago" in problem
    assert "start it again where it was started" in problem


def test_driver_that_says_its_end_is_gone_at_once(world: World) -> None:
    world.deploy()
    world.beat(version=1, slots=2, ended=True)
    assert not world.reconciler.running()
    assert "has ended" in (world.reconciler.problem() or "")


def test_stopped_pipeline_is_left_alone_but_its_driver_named(world: World) -> None:
    world.deploy()
    world.beat(version=1, slots=2)
    world.deploy(running=False)
    assert world.outcomes() == []
    assert "Stop it where it was started" in (world.reconciler.problem() or "")


def test_restart_is_only_shown_with_its_command(world: World) -> None:
    world.deploy()
    world.beat(version=1, slots=2)
    world.outcomes()
    world.deploy(executor=ExecutorSize(1, 2048))
    world.granted = 2
    assert world.outcomes() == [(LIVE, Outcome.READY, None)]
    needed = world.reconciler.restart_needed(SPEC)
    assert needed is not None and "spark.executor.memory=2048m (now 1g)" in needed
    assert needed.endswith("Run: spark-submit --conf spark.executor.memory=2048m")
    assert world.reconciler.problem() is None, "its driver runs"
    world.granted = 3
    world.deploy(executor=ExecutorSize(1, 2048), slots=3)
    assert world.reconciler.restart_needed(SPEC) == needed, "the same alert for another version"
    world.beat(generation=2, settings={**DRIVER.settings, "spark.executor.memory": "2g"})
    assert world.reconciler.restart_needed(SPEC) is None


def sized(**sizes: object) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": NAME, "submit": {"launcher": "external"}, **sizes})


@pytest.mark.parametrize(
    ("spec", "change"),
    [
        (sized(), None),
        (sized(executor={"memory_mb": 1024}), "spark.executor.memory=1024m (now 8g)"),
        (sized(memory_mb=1024), "spark.driver.memory=1024m (now 4g)"),
        (sized(executor={"cores": 1, "min_memory_mb": 512}), "spark.executor.cores=1 (now 2)"),
    ],
)
def test_sizes_that_the_spec_leaves_out_may_be_any(world: World, spec: PipelineSpec, change: str | None) -> None:
    world.tables.deployments.commit(spec.first_deployment(), None)
    own = {"spark.executor.memory": "8g", "spark.executor.cores": "2", "spark.driver.memory": "4g"}
    world.beat(version=1, slots=2, settings=own)
    needed = world.reconciler.restart_needed(spec)
    assert needed is None if change is None else f"needs a restart with {change}. " in str(needed)


def test_size_that_a_decision_changed_is_compared_though_the_spec_leaves_it_out(world: World) -> None:
    world.deploy(executor=ExecutorSize(1, 2048))
    world.beat(version=1, slots=2)
    assert "spark.executor.memory=2048m (now 1g)" in str(world.reconciler.restart_needed(sized()))


def test_driver_that_cannot_be_resized_sets_the_slots_that_advice_starts_from(world: World) -> None:
    world.deploy()
    world.beat(slots=4, unable=UNABLE)
    assert world.outcomes() == [(RESTART, Outcome.READY, None)]
    latest = world.tables.deployments.latest(NAME)
    assert latest is not None and latest.apps[NAME].slots == 4
    assert UNABLE in latest.reason and world.reconciler.unable() == UNABLE
    assert world.outcomes() == [] and world.tables.deployments.latest(NAME) == latest


def test_heartbeat_of_0_2_0_is_readable() -> None:
    assert from_json(AttachedDriver, to_json(DRIVER).replace("{", '{"spark":"4.2.0",', 1)) == DRIVER


def test_spark_application_is_patched() -> None:
    driver = replace(DRIVER, spark_application="streaming/orders")
    command = restart_command(driver, {"spark.executor.memory": "2048m", "spark.locality.wait": "1s"})
    assert command == (
        "kubectl patch sparkapplication orders -n streaming --type merge -p "
        '\'{"spec": {"executor": {"memory": "2048m"}, "sparkConf": {"spark.locality.wait": "1s"}}}\''
    )


@pytest.mark.parametrize(("wanted", "present", "same"), [("1024m", "1g", True), ("1024m", "1025m", False)])
def test_sizes_are_compared_by_value(wanted: str, present: str, same: bool) -> None:
    app = SPEC.first_app()
    assert settings_of(app)["spark.driver.memory"] == wanted
    assert (settings_to_change(app, {"spark.driver.memory": present}) == {}) is same

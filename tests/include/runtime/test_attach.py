"""Which driver is attached, and that failures are said and retried; Spark itself is in tests/jobs/test_attach.py."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.lake.attached_drivers import Heartbeat, claim, newest_heartbeat
from millrace.lake.deployments import DeploymentStore
from millrace.lake.row_codec import app_row
from millrace.lake.store import Lake
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import AppMetrics
from millrace.runtime import attach
from millrace.runtime.attach import Attachment

NAME = "orders"
SPEC = PipelineSpec.model_validate({"name": NAME, "submit": {"launcher": "external"}})


class Telemetry:
    """Writes heartbeats when asked, and a last one at the end."""

    def __init__(self, spark: Any, identity: Any, lake: str, period_s: float) -> None:
        self._identity, self._lake, self.is_fenced = identity, Lake(lake), False

    def describe_by(self, describe: Callable[[], Any]) -> None:
        self._describe = describe

    def resized(self, version: int, slots: int) -> None:
        pass

    def beat(self) -> None:
        row = AppMetrics(
            NAME, NAME, datetime.now(UTC), self._identity.generation, None, None, 0.0, "h", self._describe()
        )
        self._lake.append("telemetry/apps", [app_row(row)])

    close = beat


class App:
    """An application with two slots."""

    def __init__(self, spark: Any) -> None:
        self.name, self.reason = spark.name, spark.reason
        self.slots, self.spark_application = 2, ""

    def settings(self, names: Any) -> dict[str, str]:
        return {}

    def content(self, wanted: Any) -> Any:
        return wanted

    def unable(self) -> str:
        return str(self.reason)

    def advice(self) -> str:
        return ""


def spark(name: str, reason: str = "") -> Any:
    return SimpleNamespace(name=name, reason=reason, sparkContext=SimpleNamespace(stop=lambda: None))


@pytest.fixture
def agents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """Attach without Spark; yield the names of the drivers whose agent was started."""
    started: list[str] = []

    def start(spark: Any, *rest: Any) -> Any:
        started.append(spark.name)
        if started == ["fails first"]:
            raise OSError("no cluster yet")
        return SimpleNamespace(problem="")

    for name, double in (("Telemetry", Telemetry), ("AttachedApp", App), ("start_agent", start)):
        monkeypatch.setattr(attach, name, double)
    monkeypatch.setattr(attach, "RunningQueries", lambda spark: ())
    monkeypatch.setattr(attach, "RETRY_S", 0.05)
    monkeypatch.setattr(attach, "LOOK_S", 0.05)
    made: list[Attachment] = []
    original = Attachment.start

    def begin(self: Attachment) -> None:
        made.append(self)
        original(self)

    monkeypatch.setattr(Attachment, "start", begin)
    yield started
    for attachment in made:
        attachment.close()


def heartbeat(folder: Path) -> Heartbeat | None:
    return newest_heartbeat(Lake(folder / "lake"), NAME, NAME, datetime.now(UTC))


def until(reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + 300.0
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def attached(folder: Path, driver: Any) -> Attachment:
    attachment = Attachment(driver, NAME, str(folder / "lake"), 15.0)
    attachment.start()
    return attachment


def test_second_driver_is_refused_with_the_first_ones_name_until_that_has_ended(
    tmp_path: Path, agents: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    DeploymentStore(Lake(tmp_path / "lake")).commit(SPEC.first_deployment(), None)
    first = attached(tmp_path, spark("first"))
    until(lambda: agents == ["first"])
    attached(tmp_path, spark("second"))
    until(lambda: "this driver is not attached, because first is, and is alive" in caplog.text)
    assert agents == ["first"]
    first.close()
    until(lambda: agents == ["first", "second"])
    beat = heartbeat(tmp_path)
    assert beat is not None and (beat.generation, beat.driver.name) == (2, "second")


def test_claim_is_remembered_for_a_driver_that_was_paused_for_longer_than_ids_are_kept(
    tmp_path: Path, agents: list[str]
) -> None:
    attached(tmp_path, spark("first"))
    until(lambda: heartbeat(tmp_path))
    log = Lake(tmp_path / "lake").path("telemetry/apps") / "_delta_log"
    actions = (json.loads(line) for entry in log.glob("*.json") for line in entry.read_text().splitlines())
    (claimed,) = (a["txn"] for a in actions if a.get("txn", {}).get("appId") == claim(NAME, NAME))
    assert claimed["version"] == 1 and claimed.get("lastUpdated") is None


def test_failure_after_the_claim_is_said_and_retried_under_the_same_generation(
    tmp_path: Path, agents: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    DeploymentStore(Lake(tmp_path / "lake")).commit(SPEC.first_deployment(), None)
    attached(tmp_path, spark("fails first"))
    until(lambda: agents == ["fails first"] * 2)
    beat = heartbeat(tmp_path)
    assert beat is not None and beat.generation == 1
    assert "no cluster yet. The job continues." in caplog.text


def test_driver_that_cannot_be_resized_only_reports(
    tmp_path: Path, agents: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    DeploymentStore(Lake(tmp_path / "lake")).commit(SPEC.first_deployment(), None)
    attached(tmp_path, spark("local", "it has no executors."))
    until(lambda: "telemetry and advice only: it has no executors." in caplog.text)
    beat = heartbeat(tmp_path)
    assert beat is not None and (beat.driver.unable, beat.driver.slots) == ("it has no executors.", 2)
    assert agents == []


def test_pipeline_that_was_not_launched_is_waited_for(
    tmp_path: Path, agents: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        attached(tmp_path, spark("early"))
        until(lambda: "it has not been launched" in caplog.text)
    DeploymentStore(Lake(tmp_path / "lake")).commit(SPEC.first_deployment(), None)
    until(lambda: agents == ["early"])


def test_wrong_lake_is_a_sentence(agents: list[str], caplog: pytest.LogCaptureFixture) -> None:
    Attachment(spark("lost"), NAME, "s4://lake", 15.0).start()
    until(lambda: "this driver is not attached" in caplog.text)
    assert "The job continues." in caplog.text and "Traceback" not in caplog.text

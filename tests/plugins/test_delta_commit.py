import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from airflow.triggers.base import TriggerEvent

from millrace.lake.commit_follower import CommitFollower
from millrace.lake.deployments import DeploymentStore
from millrace.lake.pace import late_after_s
from millrace.lake.row_codec import batch_row
from millrace.lake.store import Lake
from millrace.lake.table_errors import unreadable
from millrace.model.deployment import AppDeployment, Deployment
from millrace.plugins import delta_commit
from millrace.plugins.delta_commit import DeltaCommitTrigger
from tests.include.control.world import NOON, batch
from tests.s3.server import Bucket
from tests.telemetry_commits import TABLE, commit

pytestmark = pytest.mark.airflow


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(delta_commit, "monotonic", clock)
    return clock


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def log_folder(lake: Lake) -> Path:
    return lake.path(TABLE) / "_delta_log"


def test_serialize_when_made_again_then_is_the_same_trigger() -> None:
    from airflow._shared.module_loading import import_string
    from airflow.serialization.encoders import encode_trigger

    trigger = DeltaCommitTrigger("/lake", TABLE, "tiny", 60.0, 180.0, 0.25)
    path, arguments = trigger.serialize()
    again = import_string(path)(**arguments)
    assert isinstance(again, DeltaCommitTrigger)
    assert again.serialize() == trigger.serialize()
    json.dumps(encode_trigger(trigger)["kwargs"])


def watch(trigger: DeltaCommitTrigger, story: Callable[["Watch"], object]) -> None:
    async def play() -> None:
        watched = Watch(trigger.run())
        try:
            await story(watched)  # type: ignore[misc]
        finally:
            await watched.close()

    asyncio.run(play())


class Watch:
    """Events of a running trigger, and a way to wait until it has checked again."""

    def __init__(self, events: AsyncIterator[TriggerEvent]) -> None:
        self._next: asyncio.Future[TriggerEvent] | None = None
        self._events = events

    def begin(self) -> "asyncio.Future[TriggerEvent]":
        if self._next is None or self._next.done():
            self._next = asyncio.ensure_future(anext(self._events))
        return self._next

    async def event(self) -> TriggerEvent:
        return await asyncio.wait_for(self.begin(), 600)

    async def quiet_after_polls(self, count: int, polls: list[int]) -> None:
        waiting, target = self.begin(), len(polls) + count
        while len(polls) < target and not waiting.done():
            await asyncio.sleep(0.001)
        assert not waiting.done(), waiting.result()

    async def close(self) -> None:
        if self._next is not None and not self._next.done():
            self._next.cancel()


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    done: list[int] = []
    advance = CommitFollower.advance

    def counted(self: CommitFollower) -> bool:
        result = advance(self)
        done.append(self.version)
        return result

    monkeypatch.setattr(CommitFollower, "advance", counted)
    return done


def trigger(lake: Lake, period_s: float = 60.0, silence_s: float | None = None) -> DeltaCommitTrigger:
    return DeltaCommitTrigger(str(lake.location), TABLE, "tiny", period_s, silence_s, 0.001)


def test_trigger_fires_for_commits_in_a_bucket(s3: Bucket, clock: Clock, polls: list[int]) -> None:
    lake = Lake(s3.lake)
    commit(lake, "tiny", 0)

    async def story(watched: Watch) -> None:
        await watched.event()
        clock.now_s += 60
        await watched.quiet_after_polls(3, polls)
        commit(lake, "other", 0)
        commit(lake, "tiny", 1)
        assert (await watched.event()).payload["version"] == lake.version(TABLE)

    watch(trigger(lake), story)


def deploy(lake: Lake, version: int, *, running: bool, detached: bool = False) -> None:
    content = Deployment("tiny", version, running, {"tiny": AppDeployment("tiny.py", (), 2, 1024, 8)}, "person")
    DeploymentStore(lake).commit(replace(content, detached=detached), version - 1 or None)


def test_trigger_fires_on_long_silence(lake: Lake, clock: Clock, polls: list[int]) -> None:
    deploy(lake, 1, running=True)
    commit(lake, "tiny", 0)

    async def story(watched: Watch) -> None:
        await watched.event()
        clock.now_s += 179
        await watched.quiet_after_polls(5, polls)
        for _ in range(3):
            clock.now_s += 180
            assert (await watched.event()).payload["pipeline"] == "tiny"
            await watched.quiet_after_polls(5, polls)

    watch(trigger(lake, silence_s=180.0), story)


def test_trigger_waits_longer_if_batches_are_far_apart(lake: Lake, clock: Clock, polls: list[int]) -> None:
    deploy(lake, 1, running=True)
    lake.append("telemetry/batches", [batch_row(replace(batch(1, NOON), pipeline="tiny", trigger_s=600.0))])
    commit(lake, "tiny", 0)

    async def story(watched: Watch) -> None:
        await watched.event()
        for _ in range(2):
            clock.now_s += late_after_s(600.0, 180.0) - 1
            await watched.quiet_after_polls(5, polls)
            clock.now_s += 1
            assert (await watched.event()).payload["pipeline"] == "tiny"

    watch(trigger(lake, silence_s=180.0), story)


def test_trigger_ignores_silence_of_stopped_or_detached_pipelines(lake: Lake, clock: Clock, polls: list[int]) -> None:
    async def story(watched: Watch) -> None:
        clock.now_s += 600
        await watched.quiet_after_polls(5, polls)
        deploy(lake, 1, running=False)
        clock.now_s += 600
        await watched.quiet_after_polls(5, polls)
        deploy(lake, 2, running=True, detached=True)
        clock.now_s += 600
        await watched.quiet_after_polls(5, polls)
        deploy(lake, 3, running=True)
        clock.now_s += 600
        await watched.event()

    watch(trigger(lake, silence_s=180.0), story)


def test_trigger_fires_once_for_commits_within_a_period(lake: Lake, clock: Clock, polls: list[int]) -> None:
    commit(lake, "tiny", 0)

    async def story(watched: Watch) -> None:
        assert (await watched.event()).payload["pipeline"] == "tiny"
        commit(lake, "tiny", 1)
        newest = commit(lake, "tiny", 2)
        await watched.quiet_after_polls(5, polls)
        clock.now_s += 60
        assert (await watched.event()).payload["version"] == newest
        clock.now_s += 600
        await watched.quiet_after_polls(5, polls)
        newest = commit(lake, "tiny", 3)
        assert (await watched.event()).payload["version"] == newest

    watch(trigger(lake), story)


def test_run_without_a_commit_does_not_fire_at_start(lake: Lake, clock: Clock, polls: list[int]) -> None:
    async def story(watched: Watch) -> None:
        await watched.quiet_after_polls(5, polls)
        newest = commit(lake, "tiny", 0)
        assert (await watched.event()).payload["version"] in (newest - 1, newest)

    watch(trigger(lake), story)


def test_run_when_folder_cannot_be_read_then_continues(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(lake, "tiny", 0)
    advance, failures = CommitFollower.advance, iter([PermissionError("no"), unreadable("log", OSError("no"))])

    def sometimes(self: CommitFollower) -> bool:
        for error in failures:
            raise error
        return advance(self)

    monkeypatch.setattr(CommitFollower, "advance", sometimes)

    async def story(watched: Watch) -> None:
        await watched.event()

    watch(trigger(lake), story)

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from airflow.triggers.base import TriggerEvent
from deltalake import DeltaTable

from include.lake.deployments import DeploymentStore
from include.lake.store import Lake
from include.model.deployment import AppDeployment, Deployment
from plugins import delta_commit
from plugins.delta_commit import NOTHING, CommitLog, DeltaCommitTrigger

pytestmark = pytest.mark.airflow
TABLE = "telemetry/apps"


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


def commit(lake: Lake, pipeline: str, number: int) -> int:
    row = {"pipeline": pipeline, "time": datetime.now(UTC), "app": pipeline, "generation": 1, "up_s": 1.0}
    version = lake.append(TABLE, [row], {f"{pipeline}/{pipeline}/main/0": number})
    assert version is not None
    return version


def log_folder(lake: Lake) -> Path:
    return lake.path(TABLE) / "_delta_log"


def log(lake: Lake, pipeline: str = "tiny") -> CommitLog:
    return CommitLog(log_folder(lake), pipeline)


def test_advance_when_table_is_missing_then_waits_for_its_first_commit(lake: Lake) -> None:
    followed = log(lake)
    assert not followed.advance()
    assert followed.version == NOTHING
    commit(lake, "tiny", 1)
    assert followed.advance()
    assert not followed.advance()


def test_advance_when_another_pipeline_commits_then_does_not_count(lake: Lake) -> None:
    commit(lake, "tiny", 1)
    followed = log(lake)
    followed.advance()
    commit(lake, "tiny2", 1)
    newest = commit(lake, "other", 1)
    assert not followed.advance()
    assert followed.version == newest
    commit(lake, "tiny", 2)
    assert followed.advance()


def test_advance_when_several_commits_came_then_one_of_ours_counts(lake: Lake) -> None:
    commit(lake, "tiny", 1)
    followed = log(lake)
    followed.advance()
    commit(lake, "other", 1)
    commit(lake, "tiny", 2)
    newest = commit(lake, "other", 2)
    assert followed.advance()
    assert followed.version == newest
    assert not followed.advance()


def test_advance_does_not_count_compaction_and_checkpoints(lake: Lake) -> None:
    for number in range(3):
        commit(lake, "tiny", number)
    followed = log(lake)
    followed.advance()
    table = DeltaTable(str(lake.path(TABLE)))
    table.optimize.compact()
    table.create_checkpoint()
    assert not followed.advance()
    assert followed.version == table.version()


def test_advance_goes_on_after_a_clean_up_of_the_log(lake: Lake) -> None:
    for number in range(5):
        commit(lake, "tiny", number)
    followed = log(lake)
    followed.version = 1
    DeltaTable(str(lake.path(TABLE))).create_checkpoint()
    files = sorted(log_folder(lake).glob("*.json"))
    for file in files[:-1]:
        file.unlink()
    assert followed.advance()  # what was between 1 and the rest is unknown: it counts
    newest = int(files[-1].stem)
    assert followed.version == newest
    files[-1].unlink()
    assert not followed.advance(), "the checkpoint still names the version"
    (log_folder(lake) / f"{newest + 1:020d}.json").write_text('{"txn": {"appId": "tiny/tiny/main/0"}}')
    assert followed.advance()


def test_advance_when_table_is_made_anew_then_starts_over(lake: Lake, tmp_path: Path) -> None:
    import shutil

    for number in range(3):
        commit(lake, "tiny", number)
    followed = log(lake)
    followed.advance()
    shutil.rmtree(lake.path(TABLE))
    assert not followed.advance()
    commit(Lake(tmp_path), "tiny", 0)
    assert followed.advance()


def test_advance_when_a_commit_is_half_written_then_reads_it_again(lake: Lake) -> None:
    commit(lake, "tiny", 0)
    followed = log(lake)
    followed.advance()
    file = log_folder(lake) / f"{followed.version + 1:020d}.json"
    action = json.dumps({"txn": {"appId": "tiny/tiny/main/0", "version": 1}})
    for half in ("", action[:20]):
        file.write_text(half)
        assert not followed.advance()
    file.write_text(action)
    assert followed.advance()


@pytest.mark.parametrize("content", ["not json", "1", '{"txn": {}}', '{"txn": 3}', "\0" * 8])
def test_advance_counts_a_corrupt_commit_and_goes_on(lake: Lake, content: str) -> None:
    commit(lake, "other", 0)
    followed = log(lake)
    followed.advance()
    after = followed.version + 2
    (log_folder(lake) / f"{after - 1:020d}.json").write_text(content)
    (log_folder(lake) / f"{after:020d}.json").write_text('{"commitInfo": {}}')
    assert followed.advance()
    assert followed.version == after


def test_serialize_when_made_again_then_is_the_same_trigger() -> None:
    from airflow._shared.module_loading import import_string
    from airflow.serialization.encoders import encode_trigger

    trigger = DeltaCommitTrigger("/lake/telemetry/batches/_delta_log", "tiny", 60.0, 0.25, "/lake", 180.0)
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
    """Events of a running trigger, and a way to wait until it has looked again."""

    def __init__(self, events: AsyncIterator[TriggerEvent]) -> None:
        self._next: asyncio.Future[TriggerEvent] | None = None
        self._events = events

    def begin(self) -> "asyncio.Future[TriggerEvent]":
        if self._next is None or self._next.done():
            self._next = asyncio.ensure_future(anext(self._events))
        return self._next

    async def event(self) -> TriggerEvent:
        return await asyncio.wait_for(self.begin(), 30)

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
    advance = CommitLog.advance

    def counted(self: CommitLog) -> bool:
        result = advance(self)
        done.append(self.version)
        return result

    monkeypatch.setattr(CommitLog, "advance", counted)
    return done


def trigger(lake: Lake, period_s: float = 60.0, silence_s: float | None = None) -> DeltaCommitTrigger:
    return DeltaCommitTrigger(str(log_folder(lake)), "tiny", period_s, 0.001, str(lake.root), silence_s)


def deploy(lake: Lake, version: int, *, running: bool) -> None:
    app = AppDeployment("tiny.py", (), 2, 1024, 8)
    DeploymentStore(lake).commit(Deployment("tiny", version, running, {"tiny": app}, "person"), version - 1 or None)


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


def test_trigger_ignores_the_silence_of_a_stopped_pipeline(lake: Lake, clock: Clock, polls: list[int]) -> None:
    async def story(watched: Watch) -> None:
        clock.now_s += 600
        await watched.quiet_after_polls(5, polls)
        deploy(lake, 1, running=False)
        clock.now_s += 600
        await watched.quiet_after_polls(5, polls)
        deploy(lake, 2, running=True)
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


def test_run_when_table_has_no_commit_then_does_not_fire_at_start(lake: Lake, clock: Clock, polls: list[int]) -> None:
    async def story(watched: Watch) -> None:
        await watched.quiet_after_polls(5, polls)
        newest = commit(lake, "tiny", 0)
        assert (await watched.event()).payload["version"] in (newest - 1, newest)

    watch(trigger(lake), story)


def test_run_when_folder_cannot_be_read_then_goes_on(lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(lake, "tiny", 0)
    advance, failures = CommitLog.advance, iter([PermissionError("no"), PermissionError("no")])

    def sometimes(self: CommitLog) -> bool:
        for error in failures:
            raise error
        return advance(self)

    monkeypatch.setattr(CommitLog, "advance", sometimes)

    async def story(watched: Watch) -> None:
        await watched.event()

    watch(trigger(lake), story)

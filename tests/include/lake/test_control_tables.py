from __future__ import annotations

import contextlib
import multiprocessing
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.lake import deployments, memories
from millrace.lake.decisions import DecisionStore, new_decision_id
from millrace.lake.deployments import DeploymentFollower, DeploymentStore
from millrace.lake.memories import MemoryStore
from millrace.lake.observations import ObservationStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.row_codec import decision_row
from millrace.lake.store import Lake
from millrace.model.codec import to_json
from millrace.model.decision import Action, Decision, Outcome, Proposal, Reconfiguration
from millrace.model.deployment import AppDeployment, Change, Deployment
from millrace.model.errors import Conflict
from millrace.model.protocols import Cursor
from millrace.model.signals import Observation
from tests.include.reporting.fleets import planned

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FIRST = Deployment("delays", 1, True, {"delays": AppDeployment("a.py", ("-x",), 1, 1024, 8, {"conf": {"a": "b"}})})
CHANGE = Reconfiguration("delays", "delays", "d1", "T2", 1, 2, 2, NOW, None, None, Outcome.OPEN)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def climb(root: str, author: str, upto: int) -> list[int]:
    """Commit versions repeatedly on top of the newest; return those that this process made."""
    store, made = DeploymentStore(Lake(root)), []
    while True:
        latest = store.latest("delays")
        if latest is not None and latest.version >= upto:
            return made
        with contextlib.suppress(Conflict):
            base = latest.version if latest else None
            made.append(store.commit(replace(latest or FIRST, author=author), base).version)


def test_deployments_of_two_processes_make_each_version_once(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        jobs: list[Any] = [pool.apply_async(climb, (str(tmp_path), author, 12)) for author in ("a", "b")]
        made = [job.get() for job in jobs]
    assert sorted([*made[0], *made[1]]) == list(range(1, max(max(m, default=0) for m in made) + 1))
    store = DeploymentStore(Lake(tmp_path))
    for author, versions in zip("ab", made, strict=True):
        assert all((found := store.get("delays", v)) is not None and found.author == author for v in versions)


def test_deployment_on_an_old_base_is_a_conflict(lake: Lake) -> None:
    store = DeploymentStore(lake)
    second = store.commit(store.commit(FIRST, None), 1)
    for stale in (None, 1):
        with pytest.raises(Conflict):
            store.commit(FIRST, stale)
    assert store.latest("delays") == second
    assert second.version == 2


def test_deployments_of_several_pipelines_are_counted_separately(lake: Lake) -> None:
    store = DeploymentStore(lake)
    assert store.latest("delays") is None
    assert store.all_latest() == []
    quoted = replace(FIRST, pipeline="it's; drop table")
    store.commit(FIRST, None)
    store.commit(quoted, None)
    changed = store.commit(FIRST.with_changes((Change("delays", "slots", 1, 4),)), 1)
    assert [(d.pipeline, d.version) for d in store.all_latest()] == [("delays", 2), ("it's; drop table", 1)]
    assert store.get("delays", 2) == changed
    assert store.get("delays", 3) is None
    assert changed.apps["delays"].slots == 4


def test_deployments_made_by_a_decision_are_found_by_it(lake: Lake) -> None:
    store = DeploymentStore(lake)
    store.commit(replace(FIRST, decision_id="d7"), None)
    assert store.made_by("delays", "d7") == replace(FIRST, decision_id="d7")
    assert store.made_by("delays", "d8") is None


def test_last_plan_for_streams_is_found_among_evaluations_without_one(lake: Lake) -> None:
    store = DecisionStore(lake)
    plan = planned({"a": 0}, {"a": 1.0})
    for n, admission in enumerate((plan, plan, None, None)):
        proposal = Proposal("drfm", (), "r", 'no "admission":{', admission=admission)
        assert store.record(Decision(f"d{n}", "delays", later(n), Action.HOLD, "r", "s", proposals=(proposal,)))
    found = store.last_admission("delays", later(0))
    assert found is not None and (found.decision_id, found.proposals[0].admission) == ("d1", plan)
    assert store.last_admission("delays", later(2)) is None and store.last_admission("orders", later(0)) is None
    rows = [decision_row(replace(found, decision_id=f"e{n}", time=later(n), pipeline="orders")) for n in (0, 9)]
    lake.append("control/decisions", [rows[0], {**rows[1], "proposals": "[]"}])  # one file
    assert store.last_admission("orders", later(0)) is not None and store.last_admission("orders", later(5)) is None


def test_decisions_when_recorded_twice_then_stored_once_and_found_again(lake: Lake) -> None:
    store = DecisionStore(lake)
    first = Decision("d1", "delays", NOW, Action.HOLD, "steady", "All is well.", cursor_version=7, cursor_until=NOW)
    veto = Decision("d2", "delays", later(5), Action.VETO, "stale", "Too late.")
    assert store.last("delays") is None
    assert store.cursor("delays") == Cursor()
    assert store.record(first)
    assert not store.record(replace(first, sentence="again"))
    assert store.record(veto)
    assert store.record(replace(first, decision_id="d3", pipeline="orders", time=later(9)))
    assert store.get("d1") == first
    assert store.get("nothing") is None
    assert store.recorded("d1") == first and store.recorded("nothing") is None
    assert store.recent("delays") == [veto, first]
    assert [d.decision_id for d in store.recent()] == ["d3", "d2", "d1"]
    assert store.last("delays") == veto
    assert store.cursor("delays") == Cursor(7, NOW)


def test_decision_ids_repeat_for_the_same_evaluation_and_sort() -> None:
    assert new_decision_id(NOW, "delays") == new_decision_id(NOW, "delays")
    assert new_decision_id(NOW, "delays") != new_decision_id(NOW, "orders")
    assert new_decision_id(NOW, "z") < new_decision_id(later(1), "a")


def test_memory_is_the_newest_and_written_once_per_decision(lake: Lake) -> None:
    store = MemoryStore(lake)
    assert store.latest("delays", "conttune") == {}
    store.record("delays", "conttune", "d1", NOW, {"phase": "big", "levels": [1, 2]})
    store.record("delays", "conttune", "d2", later(10), {"phase": "small"})
    store.record("delays", "conttune", "d2", later(20), {"phase": "twice"})
    store.record("orders", "conttune", "d3", later(30), {"phase": "other"})
    assert store.latest("delays", "conttune") == {"phase": "small"}
    assert store.latest("delays", "conttune", besides="d2") == {"phase": "big", "levels": [1, 2]}
    assert store.latest("delays", "albic") == {}


def test_memory_is_searched_for_only_in_what_is_new(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    store, other, asked = MemoryStore(lake), MemoryStore(Lake(lake.location)), list[int]()
    read = memories.read_recent
    monkeypatch.setattr(memories, "read_recent", lambda of, query: asked.append(query.after) or read(of, query))
    other.record("delays", "flow", "d1", NOW, {"looks": 1})
    assert store.latest("delays", "flow") == {"looks": 1}
    assert store.latest("delays", "batch_limits") == {}
    other.record("delays", "flow", "d2", later(10), {"looks": 2})
    assert store.latest("delays", "flow") == {"looks": 2}
    assert store.latest("delays", "batch_limits") == {}
    first = lake.version("control/memory") - 1
    assert asked == [memories.NEVER, memories.NEVER, first, first]


def test_memory_when_the_table_is_recreated_then_starts_over(lake: Lake) -> None:
    store = MemoryStore(lake)
    for number in range(3):
        store.record("delays", "flow", f"d{number}", later(number), {"looks": number})
    assert store.latest("delays", "flow") == {"looks": 2}
    shutil.rmtree(lake.path("control/memory"))
    assert store.latest("delays", "flow") == {}


def test_only_the_versions_of_a_span_are_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {1: -100, 2: -50, 3: 0, 4: 50}
    for pipeline in ("delays", "orders"):
        made = [replace(FIRST, pipeline=pipeline, version=version) for version in seconds]
        rows = [{"version": d.version, "time": later(seconds[d.version]), "content": to_json(d)} for d in made]
        lake.append("control/deployments", [{"pipeline": pipeline, **row} for row in rows])
    store, parse, read = DeploymentStore(lake), deployments.from_json, list[str]()
    monkeypatch.setattr(deployments, "from_json", lambda kind, text: read.append(text) or parse(kind, text))
    assert sorted(store.since("delays", 3, later(-60))) == [2, 3, 4]
    assert sorted(store.since("delays", 2, later(20))) == [2, 3, 4]
    others = store.others_between("delays", later(-20), later(0))
    assert [(time, d.pipeline, d.version) for time, d in others] == [
        (later(-50), "orders", 2),
        (later(0), "orders", 3),
    ]
    assert [d.version for _, d in store.others_between("delays", later(60), later(70))] == [4]
    assert len(read) == 3 + 3 + 2 + 1


def test_memory_and_deployment_of_a_table_that_was_recreated_up_to_the_same_version(lake: Lake) -> None:
    def record(into: Lake, author: str) -> None:
        DeploymentStore(into).commit(replace(FIRST, author=author), None)
        MemoryStore(into).record("delays", "flow", "d1", NOW, {"author": author})

    record(lake, "old")
    store, followed = MemoryStore(lake), DeploymentFollower(lake, "delays")
    assert store.latest("delays", "flow") == {"author": "old"}
    deployed = followed.read()
    assert deployed is not None and deployed.author == "old"
    for table in ("control/memory", "control/deployments"):
        shutil.rmtree(lake.path(table))
    record(Lake(lake.location), "new")
    assert store.latest("delays", "flow") == {"author": "new"}
    deployed = followed.read()
    assert deployed is not None and deployed.author == "new"


def test_observations_are_the_newest_of_each_level(lake: Lake) -> None:
    store = ObservationStore(lake)
    points = [Observation("delays", 1 + i % 2, 100.0 + i, 1.0, 5, later(i)) for i in range(12)]
    store.add("delays", points, "adapt", 3)
    store.add("delays", points, "adapt", 3)
    store.add("delays", [], "adapt", 4)
    store.add("orders", points[:1], "adapt", 1)
    assert store.recent("delays") == tuple(points)
    assert store.recent("delays", per_level=2) == tuple(points[-4:])


def test_reconfiguration_is_read_in_its_last_recorded_state(lake: Lake) -> None:
    store = ReconfigurationStore(lake)
    ready = replace(CHANGE, ended=later(6), downtime_s=5.5, outcome=Outcome.READY)
    for stage in (CHANGE, ready, replace(ready, achieved={"x_ratio": 1.0})):
        store.record(stage)
        assert store.recent("delays") == [stage]
    store.record(ready)  # a retried task writes an earlier stage late
    assert store.recent("delays") == [replace(ready, achieved={"x_ratio": 1.0})]


def test_end_of_a_reconfiguration_replaces_its_start_whatever_the_clock(lake: Lake) -> None:
    store = ReconfigurationStore(lake)
    ended = replace(CHANGE, ended=later(-30), outcome=Outcome.FAILED, error="it's broken")
    store.record(CHANGE)
    store.record(ended)
    assert store.recent("delays") == [ended]


def test_reconfigurations_are_newest_first_within_limits(lake: Lake) -> None:
    store = ReconfigurationStore(lake)
    many = [replace(CHANGE, started=later(i), generation=i) for i in range(5)]
    for change in many:
        store.record(change)
    store.record(replace(CHANGE, pipeline="orders"))
    assert store.recent("delays", limit=2) == [many[4], many[3]]
    assert store.recent("delays", since=later(3)) == [many[4], many[3]]

"""A changed spec or script is noticed, reported, and adopted once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from millrace.control.guard_context import guard_context
from millrace.control.guards import first_veto, judge
from millrace.control.launch import detach, launch
from millrace.control.spec_update import described, spec_update
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.model.decision import Action
from millrace.model.deployment import Deployment
from millrace.model.join import JoinSettings
from millrace.model.key_map import KeyMap
from millrace.model.spec import Mode, PipelineSpec
from tests.include.control.test_join_settings import JOIN
from tests.include.control.test_loop import evaluate
from tests.include.control.world import NAME, NOON, World, world


@pytest.fixture
def script(tmp_path: Path) -> Path:
    script = tmp_path / "tiny.py"
    script.write_text("print(1)")
    return script


def _spec(script: Path, **changes: object) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "tiny", "script": str(script), **changes})


@pytest.fixture
def tables(tmp_path: Path) -> ControlTables:
    return ControlTables(Lake(tmp_path / "lake"))


def test_edited_script_is_reported_and_adopted_with_the_current_slots(script: Path) -> None:
    first = described(_spec(script))
    app = replace(first.apps["tiny"], slots=5, placement={"q/0": (1, 0)})
    running = replace(first, version=3, apps={"tiny": app})
    assert spec_update(_spec(script), running) is None
    script.write_text("print(2)")
    update = spec_update(_spec(script), running)
    assert update is not None
    assert update.sentence == "The script changed since version 3 of tiny"
    assert update.content.apps == {"tiny": replace(app, script_hash=update.content.apps["tiny"].script_hash)}
    assert running.restarts(update.content)
    assert spec_update(_spec(script), update.content) is None


def test_changed_parts_of_a_spec_are_named(script: Path) -> None:
    running = described(_spec(script))
    changed = _spec(script, args=["--new"], submit={"conf": {"spark.x": "1"}}, executor={"memory_mb": 2048})
    update = spec_update(changed, running)
    assert update is not None and update.sentence.startswith("Args and submit.conf changed")
    assert update.content.apps["tiny"].executor == running.apps["tiny"].executor  # its memory belongs to the optimizer
    more = _spec(script, slots={"max": 32}, mode="auto", max_parallelism=16)
    assert spec_update(more, running) is None  # they apply at once, or have their own mode


def _joined(script: Path, **changes: object) -> PipelineSpec:
    return _spec(script, join={**JOIN, **changes})


def test_changed_join_keeps_its_adapted_settings_as_far_as_its_new_bounds_allow(script: Path) -> None:
    running = replace(described(_joined(script)), join=JoinSettings(5, 40, 0.25))
    for changes, kept in (
        ({"capacity": 60}, JoinSettings(5, 30, 0.25)),
        ({"capacity": 400, "workers": {"min": 1, "max": 4, "start": 1}}, JoinSettings(4, 40, 0.25)),
    ):
        update = spec_update(_joined(script, **changes), running)
        assert update is not None and update.content.join == kept


def test_script_that_becomes_a_join_gets_its_first_settings_and_back(script: Path) -> None:
    update = spec_update(_joined(script), described(_spec(script)))
    assert update is not None and update.content.join == JoinSettings(2, 10)
    back = spec_update(_spec(script), update.content)
    assert back is not None and back.content.join is None


def test_maps_of_keys_go_with_their_section_and_without_a_restart(script: Path) -> None:
    maps = {"areas": KeyMap(4, ("area",), 2)}
    running = replace(described(_spec(script, partitioning={})), version=3, partitioning=maps)
    assert spec_update(_spec(script, partitioning={"options": {"least_gain": 1.0}}), running) is None
    update = spec_update(_spec(script), running)
    assert update is not None and update.content == replace(running, partitioning={})
    assert update.sentence == "Partitioning changed since version 3 of tiny" and not running.restarts(update.content)


def test_raised_batch_limits_stay_until_the_script_or_their_permission_changes(script: Path) -> None:
    tuned = {"tune_batches": True}
    first = described(_spec(script, submit=tuned))
    running = replace(first, apps={"tiny": replace(first.apps["tiny"], batch_limits={"maxFilesPerTrigger": 9})})

    def limits(**changes: object) -> dict[str, int]:
        update = spec_update(_spec(script, **changes), running)
        assert update is not None
        return dict(update.content.apps["tiny"].batch_limits)

    assert limits(submit={**tuned, "conf": {"spark.x": "1"}}) == {"maxFilesPerTrigger": 9}
    assert limits() == limits(submit=tuned, args=["--new"]) == {}
    script.write_text("print(2)")
    assert limits(submit=tuned) == {}


@pytest.mark.parametrize("changes", [{"source": ""}, {"running": False}, {"detached": True}])
def test_deployment_without_a_noted_spec_or_not_running_is_left_alone(script: Path, changes: dict) -> None:
    running = replace(described(_spec(script)), **changes)
    assert spec_update(_spec(script, args=["--new"]), running) is None


def test_move_to_a_cluster_waits_for_a_launch(script: Path) -> None:
    local = {"submit": {"master": "local"}}
    running = described(_spec(script, **local))
    assert spec_update(_spec(script), running) is None
    update = spec_update(_spec(script, args=["--new"]), running)
    assert update is not None and update.content.apps["tiny"].submit["master"] == "local"


def test_launch_adopts_an_edited_script(script: Path, tables: ControlTables) -> None:
    first = launch(_spec(script), tables)
    assert launch(_spec(script), tables) == first
    script.write_text("print(2)")
    again = launch(_spec(script), tables)
    assert again.version == 2 and first.restarts(again)


def test_roll_back_of_an_update_lasts_until_the_spec_changes_again(script: Path, tables: ControlTables) -> None:
    launch(_spec(script), tables)
    launch(_spec(script, args=["--new"]), tables)
    back = launch(_spec(script, args=["--new"]), tables, roll_back_to=1)
    assert back.apps["tiny"].args == ()
    assert spec_update(_spec(script, args=["--new"]), back) is None
    assert spec_update(_spec(script, args=["--newer"]), back) is not None


def test_attached_pipeline_adopts_changes_made_while_detached(script: Path, tables: ControlTables) -> None:
    launch(_spec(script), tables)
    gone = detach(tables, "tiny", "ada")
    assert spec_update(_spec(script, args=["--new"]), replace(gone, detached=False)) is not None


@pytest.fixture
def changed(tmp_path: Path) -> World:
    """A world that runs the previous arguments of its spec."""
    made = world(tmp_path, args=["--old"])
    made.run()
    store, first = DeploymentStore(made.lake), described(made.loop.spec)
    made.loop.spec = made.loop.spec.model_copy(update={"args": ("--new",)})
    store.commit(replace(first, apps=_running(store).apps, source=first.source), 1)
    return made


def _running(store: DeploymentStore) -> Deployment:
    latest = store.latest(NAME)
    assert latest is not None
    return latest


def test_evaluation_in_mode_auto_adopts_a_changed_spec(changed: World) -> None:
    changed.loop.spec = changed.loop.spec.model_copy(update={"mode": Mode.AUTO})
    decision = evaluate(changed)
    assert (decision.action, decision.reason_code) == (Action.APPLY, "spec_changed")
    assert decision.sentence.startswith("Args changed since version 2 of delays; a restart")
    changed.loop.commit(decision)
    store = DeploymentStore(changed.lake)
    assert _running(store).apps[NAME].args == ("--new",) and _running(store).version == 3


@pytest.mark.parametrize(
    ("mode", "lead"), [(Mode.ADVISE, "Advice only: Args"), (Mode.APPROVE, "Waiting for approval: Args")]
)
def test_evaluation_in_another_mode_says_that_a_spec_changed(changed: World, mode: Mode, lead: str) -> None:
    changed.loop.spec = changed.loop.spec.model_copy(update={"mode": mode})
    assert lead in evaluate(changed).sentence


def test_size_of_the_nodes_of_a_fleet_is_taken_over_and_streams_move_until_then(script: Path) -> None:
    fleet = {"script": str(script), "checkpoints": "/c", "streams": {"list": ["a", "b"]}, "nodes": 2}
    of, larger = (
        PipelineSpec.model_validate({"name": "tiny", "fleet": {**fleet, "node": {"slots": slots}}}) for slots in (2, 4)
    )
    running = replace(described(of), ingest={"a": 0, "b": 1})
    update = spec_update(larger, running)
    assert spec_update(of, running) is None and update is not None
    assert update.sentence == "Fleet.node.slots changed since version 1 of tiny"
    assert {app.slots for app in update.content.apps.values()} == {4} and not running.restarts(update.content)
    assert spec_update(larger, update.content) is None
    context = guard_context(larger, running, NOON, [], {}, {}, [])
    assert first_veto(judge(context, replace(running, ingest={"a": 1, "b": 1}))) is None


def test_app_that_is_added_removed_or_renamed_is_taken_over_and_the_others_stay(script: Path) -> None:
    def several(*names: str, **changes: object) -> PipelineSpec:
        return _spec(script, apps={name: {} for name in names}, **changes)

    first = described(several("clean", "count"))
    running = replace(first, version=3, apps={**first.apps, "clean": replace(first.apps["clean"], slots=5)})
    assert spec_update(several("clean", "count"), running) is None
    update = spec_update(several("clean", "total"), running)
    assert update is not None and set(update.content.apps) == {"clean", "total"}
    assert update.sentence == "The apps (with total) and the apps (without count) changed since version 3 of tiny"
    assert update.content.apps["clean"] == running.apps["clean"]
    budget = {"slots": 6}
    added = spec_update(several("clean", "count", "total", budget=budget), running)
    assert added is not None and added.content.slots == 6 == running.slots, "or the guards would veto it for ever"
    assert added.sentence == "The apps (with total) and clean: slots changed since version 3 of tiny"
    changed = spec_update(several("clean", "count", memory_mb=2048), running)
    assert changed is not None and changed.sentence.startswith("Clean: memory_mb and count: memory_mb changed")


def _fleet(script: Path, *args: str, query: int = 8, budget: int, nodes: object, slots: int = 2) -> PipelineSpec:
    fleet = {"script": str(script), "checkpoints": "/c", "streams": {"list": ["a", "b"]}, "nodes": nodes}
    app = {"script": str(script), "args": args, "slots": {"min": 1, "max": query, "start": 2}}
    apps, size = {"query": app}, {"slots": budget}
    content = {"name": "tiny", "fleet": {**fleet, "node": {"slots": slots}}, "apps": apps, "budget": size}
    return PipelineSpec.model_validate(content)


def test_nodes_that_do_not_run_take_nothing_from_the_budget(script: Path) -> None:
    nodes = {"min": 1, "max": 4}
    first = described(_fleet(script, budget=12, nodes=nodes))
    apps = {**first.apps, "query": replace(first.apps["query"], slots=8)}
    running = replace(first, version=3, apps=apps, ingest={"a": 0, "b": 0})
    update = spec_update(_fleet(script, "--new", budget=12, nodes=nodes), running)
    assert update is not None and update.content.apps["query"].slots == 8 and update.content.slots == 10


def test_larger_nodes_make_the_apps_behind_them_smaller_if_the_budget_requires_it(script: Path) -> None:
    first = described(_fleet(script, budget=14, nodes=2))
    apps = {**first.apps, "query": replace(first.apps["query"], slots=8)}
    running = replace(first, version=3, apps=apps, ingest={"a": 0, "b": 1})
    update = spec_update(_fleet(script, budget=14, nodes=2, slots=4), running)
    assert update is not None and update.content.apps["query"].slots == 6 and update.content.slots == 14
    assert update.sentence == "Fleet.node.slots and query: slots changed since version 3 of tiny"

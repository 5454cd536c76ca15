from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.control.launch import attach, detach, launch
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import DecisionStore
from millrace.lake.deployments import DeploymentStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.store import Lake
from millrace.model.decision import Action, Outcome, Reconfiguration
from millrace.model.errors import MillraceError
from millrace.model.spec import PipelineSpec

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


def spec(**changes: object) -> PipelineSpec:
    plain = {"name": "tiny", "script": "tiny.py", "slots": {"min": 2, "max": 6, "start": 3}, **changes}
    return PipelineSpec.model_validate(plain)


def ended(lake: Lake, version: int, outcome: Outcome) -> None:
    """Record how the driver of a version ended."""
    start = NOON + timedelta(minutes=version)
    ReconfigurationStore(lake).record(
        Reconfiguration("tiny", "tiny", None, "T2", None, version, version, start, start, None, outcome, "no such jar")
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def slots(lake: Lake) -> int:
    newest = DeploymentStore(lake).latest("tiny")
    assert newest is not None
    return newest.apps["tiny"].slots


def test_launch_when_repeated_then_creates_one_version(lake: Lake) -> None:
    first = launch(spec(), ControlTables(lake), author="ada")
    assert (first.version, first.running, first.author, slots(lake)) == (1, True, "ada", 3)
    assert launch(spec(), ControlTables(lake), author="bob") == first
    assert launch(spec(), ControlTables(lake), slots=3) == first


def test_launch_when_adapted_since_then_keeps_the_adapted_slots(lake: Lake) -> None:
    launch(spec(), ControlTables(lake))
    launch(spec(), ControlTables(lake), slots=5)
    again = launch(spec(args=["--new"]), ControlTables(lake))
    assert (again.version, again.apps["tiny"].args, slots(lake)) == (3, ("--new",), 5)


def test_launch_when_bounds_have_moved_then_slots_move_within_them(lake: Lake) -> None:
    launch(spec(), ControlTables(lake), slots=6)
    launch(spec(slots={"min": 1, "max": 4, "start": 1}), ControlTables(lake))
    assert slots(lake) == 4


def test_launch_when_executors_have_other_cores_then_slots_are_multiples_of_them(lake: Lake) -> None:
    launch(spec(), ControlTables(lake), slots=5)
    launch(spec(slots={"min": 2, "max": 6, "start": 2}, executor={"cores": 2}), ControlTables(lake))
    assert slots(lake) == 6


def test_launch_after_a_stop_starts_the_pipeline_again(lake: Lake) -> None:
    launch(spec(), ControlTables(lake))
    stopped = launch(spec(), ControlTables(lake), running=False)
    assert (stopped.version, stopped.running) == (2, False)
    assert launch(spec(), ControlTables(lake), running=False) == stopped
    assert launch(spec(), ControlTables(lake)).version == 3


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CIRCUIT_OPEN])
def test_launch_after_a_failure_creates_one_new_version(lake: Lake, outcome: Outcome) -> None:
    first = launch(spec(), ControlTables(lake))
    ended(lake, first.version, outcome)
    again = launch(spec(), ControlTables(lake), author="ada")
    assert (again.version, again.apps, again.author) == (2, first.apps, "ada")
    assert launch(spec(), ControlTables(lake)) == again  # not tried yet: a repeated task adds nothing
    ended(lake, again.version, outcome)
    assert launch(spec(), ControlTables(lake)).version == 3


@pytest.mark.parametrize("outcome", [Outcome.READY, Outcome.STOPPED, Outcome.OPEN])
def test_launch_repeated_creates_no_new_version(lake: Lake, outcome: Outcome) -> None:
    first = launch(spec(), ControlTables(lake))
    ended(lake, first.version, outcome)
    assert launch(spec(), ControlTables(lake)) == first


def test_launch_when_nothing_runs_then_creates_a_new_version(lake: Lake) -> None:
    first = launch(spec(), ControlTables(lake))
    ended(lake, first.version, Outcome.READY)
    again = launch(spec(), ControlTables(lake), alive=False)
    assert (again.version, again.apps) == (2, first.apps)
    stopped = launch(spec(), ControlTables(lake), running=False, alive=False)
    assert launch(spec(), ControlTables(lake), running=False, alive=False) == stopped


def test_launch_stops_an_abandoned_content_with_one_version(lake: Lake) -> None:
    first = launch(spec(), ControlTables(lake))
    ended(lake, first.version, Outcome.CIRCUIT_OPEN)
    stopped = launch(spec(), ControlTables(lake), running=False)
    assert launch(spec(), ControlTables(lake), running=False) == stopped


def test_launch_after_a_decision_is_the_persons_version(lake: Lake) -> None:
    first = launch(spec(), ControlTables(lake))
    DeploymentStore(lake).commit(replace(first, decision_id="20130101T120000-1f3a9c04", author="decision"), 1)
    newest = launch(spec(), ControlTables(lake), slots=4)
    assert (newest.decision_id, newest.author) == (None, "person")


def test_launch_rolls_back_with_a_new_version_and_a_decision(lake: Lake) -> None:
    first = launch(spec(), ControlTables(lake))
    launch(spec(), ControlTables(lake), slots=6)
    back = launch(spec(), ControlTables(lake), roll_back_to=1, author="ada")
    assert (back.version, back.apps) == (3, first.apps)
    assert launch(spec(), ControlTables(lake), roll_back_to=1, author="ada") == back
    decision = DecisionStore(lake).last("tiny")
    assert decision is not None and decision.action is Action.ROLL_BACK


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({"slots": 7}, "2 to 6"),
        ({"slots": 1}, "2 to 6"),
        ({"roll_back_to": 9}, "lists the versions"),
        ({"roll_back_to": 1, "slots": 2}, "without slots"),
    ],
)
def test_launch_when_the_request_is_out_of_range_then_commits_nothing(
    lake: Lake, wish: dict[str, int], told: str
) -> None:
    first = launch(spec(), ControlTables(lake))
    with pytest.raises(MillraceError, match=told):
        launch(spec(), ControlTables(lake), **wish)  # type: ignore[arg-type]
    assert DeploymentStore(lake).latest("tiny") == first


def test_rollback_that_is_to_stop_the_pipeline_is_refused(lake: Lake) -> None:
    launch(spec(), ControlTables(lake), author="ada")
    with pytest.raises(MillraceError) as told:
        launch(spec(), ControlTables(lake), roll_back_to=1, running=False, author="ada")
    assert told.value.key == "roll_back_to"


def test_launch_to_stop_a_pipeline_never_launched_says_so(lake: Lake) -> None:
    with pytest.raises(MillraceError, match="tiny was never launched"):
        launch(spec(), ControlTables(lake), running=False)


def test_detached_pipeline_keeps_its_content_until_attached_or_launched(lake: Lake) -> None:
    tables = ControlTables(lake)
    first = launch(spec(), tables)
    gone = detach(tables, "tiny", "ada")
    assert (gone.version, gone.detached, gone.running, gone.content) == (2, True, True, first.content)
    assert detach(tables, "tiny", "bob") == gone
    back = attach(tables, "tiny", "ada")
    assert (back.version, back.detached, back.content, back.author) == (3, False, first.content, "ada")
    assert attach(tables, "tiny", "ada") == back
    assert (gone.origin, back.origin) == (first.version, first.version)
    detach(tables, "tiny", "ada")
    assert not launch(spec(), tables).detached
    assert not launch(spec(), tables, roll_back_to=4).detached


@pytest.mark.parametrize("running", [None, False])
def test_detach_of_a_stopped_pipeline_is_refused(lake: Lake, running: bool | None) -> None:
    if running is not None:
        launch(spec(), ControlTables(lake))
        launch(spec(), ControlTables(lake), running=running)
    with pytest.raises(MillraceError, match=r"\./millrace trigger tiny"):
        detach(ControlTables(lake), "tiny", "ada")


def test_slots_of_one_of_several_apps_are_set_and_the_others_kept(lake: Lake) -> None:
    apps = {"first": {"slots": {"max": 8}}, "second": {}}
    several, tables = spec(apps=apps), ControlTables(lake)
    launch(several, tables)
    newest = launch(several, tables, slots=5, app="first")
    assert {name: app.slots for name, app in newest.apps.items()} == {"first": 5, "second": 3}
    newest = launch(several, tables, slots=6, app="second")
    assert {name: app.slots for name, app in newest.apps.items()} == {"first": 5, "second": 6}
    with pytest.raises(MillraceError, match="app: got None"):
        launch(several, tables, slots=4)
    with pytest.raises(MillraceError, match="slots: got 8"):
        launch(several, tables, slots=8, app="second")


def test_pipeline_with_another_set_of_apps_is_launched_with_them(lake: Lake) -> None:
    tables = ControlTables(lake)
    launch(spec(), tables)
    newest = launch(spec(apps={"first": {}, "second": {}}), tables)
    assert (sorted(newest.apps), newest.version) == (["first", "second"], 2)


def test_slots_beyond_the_budget_of_several_apps_are_refused(lake: Lake) -> None:
    several, tables = spec(apps={"first": {}, "second": {}}, budget={"slots": 8}), ControlTables(lake)
    launch(several, tables)
    with pytest.raises(MillraceError, match=r"slots: got 6; allowed: at most 5: budget.slots is 8.*second 3"):
        launch(several, tables, slots=6, app="first")
    assert launch(several, tables, slots=5, app="first").slots == 8
    lower = spec(apps={"first": {}, "second": {}}, budget={"slots": 6})
    assert launch(lower, tables, slots=4, app="first").slots == 7, "fewer than before"


def test_new_app_is_launched_within_the_budget(lake: Lake) -> None:
    tables, budget = ControlTables(lake), {"slots": 10}
    launch(spec(apps={"first": {}, "second": {}}, budget=budget), tables)
    launch(spec(apps={"first": {}, "second": {}}, budget=budget), tables, slots=6, app="first")
    newest = launch(spec(apps={"first": {}, "second": {}, "third": {}}, budget=budget), tables)
    assert {name: app.slots for name, app in newest.apps.items()} == {"first": 4, "second": 3, "third": 3}

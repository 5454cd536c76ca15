from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.model.deployment import AppDeployment, Change, Deployment, ExecutorSize, operator_name
from millrace.model.errors import MillraceError

CURRENT = Deployment(
    "delays",
    3,
    True,
    {
        "a": AppDeployment("x", (), 2, 1024, 8, parallelism={"map": 2, "sink": 1}),
        "b": AppDeployment("x", (), 4, 2048, 8),
    },
)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (Change("a", "slots", 0, 9), 2),
        (Change("b", "memory_mb", 0, 9), 2048),
        (Change("a", "parallelism", 0, 9, "map"), 2),
        (Change("a", "parallelism", 0, 9, "rank"), None),
        (Change("a", "parallelism", 0, 9), None),
        (Change("b", "parallelism", 0, 9, "map"), None),
    ],
)
def test_value_of_a_field_is_its_setting_or_none(change: Change, value: int | None) -> None:
    assert CURRENT.apps[change.app].value(change) == value


def test_with_changes_to_one_operators_p_moves_only_that_one() -> None:
    after = CURRENT.with_changes((Change("a", "parallelism", 2, 7, "map"), Change("a", "slots", 2, 8)))
    assert after.apps["a"].parallelism == {"map": 7, "sink": 1}
    assert (after.apps["a"].slots, after.apps["b"]) == (8, CURRENT.apps["b"])
    assert CURRENT.apps["a"].parallelism == {"map": 2, "sink": 1}


@pytest.mark.parametrize(
    ("cores", "cpus", "slots", "executors", "of_one"),
    [
        (4, "2", 6, 3, 2),
        (4, "2", 5, 3, 2),
        (4, "1", 6, 2, 4),
        (5, "2", 4, 2, 2),
        (3, "3", 2, 2, 1),
        (2, " 2 ", 3, 3, 1),
    ],
)
def test_slots_are_the_tasks_that_executors_can_run(
    cores: int, cpus: str, slots: int, executors: int, of_one: int
) -> None:
    submit = {"conf": {"spark.task.cpus": cpus}}
    app = replace(CURRENT.apps["b"], slots=slots, executor=ExecutorSize(cores, 1024), submit=submit)
    assert (app.executors, app.slots_per_executor) == (executors, of_one)
    assert app.tasks_on(None) == app.tasks_on(cores) == of_one
    assert replace(app, executor=None).executors == 0


def test_changes_redirect_only_the_streams_they_name() -> None:
    before = replace(CURRENT, ingest={"s": 0, "t": 1, "u": 1})
    moves = (Change("a", "ingest", 0, 1, stream="s"), Change("a", "ingest", 1, -1, stream="t"))
    joins = Change("a", "ingest", -1, 0, stream="v")
    after = before.with_changes((*moves, joins))
    assert (dict(after.ingest), after.apps) == ({"s": 1, "u": 1, "v": 0}, CURRENT.apps)
    assert [before.value(c) for c in (*moves, joins)] == [0, 1, -1]
    assert before.content != after.content


def test_changes_place_only_the_partitions_they_name() -> None:
    app = replace(CURRENT.apps["b"], executor=ExecutorSize(1, 1024))
    before = replace(CURRENT, apps={"b": app})
    moves = tuple(Change("b", "placement", -1, executor, "q/0", partition=p) for p, executor in ((2, 1), (0, 3)))
    after = before.with_changes(moves)
    assert after.apps["b"].placement == {"q/0": (3, -1, 1)} and app.placement == {}
    assert [after.value(c) for c in moves] == [1, 3] and [before.value(c) for c in moves] == [-1, -1]
    assert not before.restarts(after) and before.content != after.content
    assert after.apps["b"].live_content != app.live_content
    back = after.with_changes(tuple(replace(c, before=c.value, value=-1) for c in moves))
    assert back.content == before.content


def test_other_state_partitions_restart_and_drop_their_placement() -> None:
    placed = replace(CURRENT.apps["b"], executor=ExecutorSize(1, 1024), placement={"q/0": (3, -1, 1)})
    before = replace(CURRENT, apps={"b": placed})
    after = before.with_changes((Change("b", "max_parallelism", placed.max_parallelism, 31),))
    assert (after.apps["b"].max_parallelism, after.apps["b"].placement) == (31, {})
    assert before.restarts(after)


def test_operators_of_a_stage_have_one_name() -> None:
    assert operator_name("q", (2, 0)) == operator_name("q", (0, 2)) == "q/0+2"


@pytest.mark.parametrize(
    ("change", "key", "allowed"),
    [
        (Change("a", "parallelism", 2, 4, "rank"), "change.operator", "map, sink"),
        (Change("a", "parallelism", 2, 4), "change.operator", "map, sink"),
        (Change("b", "parallelism", 4, 5, "map"), "change.operator", "none"),
        (
            Change("a", "script", 1, 2),
            "change.field",
            "slots, memory_mb, executor_memory_mb, parallelism, batch_limit, ingest, placement, "
            "partition_map, join_workers, block_size, shed_ratio, max_parallelism",
        ),
        (Change("c", "slots", 1, 2), "change.app", "a, b"),
        (Change("a", "placement", -1, 1, "q/0", partition=0), "change.field", "an app with executors"),
        (Change("a", "executor_memory_mb", 512, 1024), "change.field", "an app with executors"),
    ],
)
def test_with_changes_when_something_does_not_exist_then_names_what_does(
    change: Change, key: str, allowed: str
) -> None:
    with pytest.raises(MillraceError) as told:
        CURRENT.with_changes((change,))
    assert (told.value.key, told.value.allowed) == (key, allowed)

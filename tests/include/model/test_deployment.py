from __future__ import annotations

from dataclasses import replace

import pytest

from include.model.deployment import AppDeployment, Change, Deployment
from include.model.errors import MillraceError

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
def test_value_when_a_change_names_a_field_then_is_what_is_set_or_none(change: Change, value: int | None) -> None:
    assert CURRENT.apps[change.app].value(change) == value


def test_with_changes_when_an_operators_p_is_set_then_only_that_one_moves() -> None:
    after = CURRENT.with_changes((Change("a", "parallelism", 2, 7, "map"), Change("a", "slots", 2, 8)))
    assert after.apps["a"].parallelism == {"map": 7, "sink": 1}
    assert (after.apps["a"].slots, after.apps["b"]) == (8, CURRENT.apps["b"])
    assert CURRENT.apps["a"].parallelism == {"map": 2, "sink": 1}


def test_changes_redirect_only_the_streams_they_name() -> None:
    before = replace(CURRENT, ingest={"s": 0, "t": 1, "u": 1})
    moves = (Change("a", "ingest", 0, 1, stream="s"), Change("a", "ingest", 1, -1, stream="t"))
    joins = Change("a", "ingest", -1, 0, stream="v")
    after = before.with_changes((*moves, joins))
    assert (dict(after.ingest), after.apps) == ({"s": 1, "u": 1, "v": 0}, CURRENT.apps)
    assert [before.value(c) for c in (*moves, joins)] == [0, 1, -1]
    assert before.content != after.content


@pytest.mark.parametrize(
    ("change", "key", "allowed"),
    [
        (Change("a", "parallelism", 2, 4, "rank"), "change.operator", "map, sink"),
        (Change("a", "parallelism", 2, 4), "change.operator", "map, sink"),
        (Change("b", "parallelism", 4, 5, "map"), "change.operator", "none"),
        (
            Change("a", "script", 1, 2),
            "change.field",
            "slots, memory_mb, executor_memory_mb, parallelism, ingest, join_workers, block_size, shed_ratio",
        ),
        (Change("c", "slots", 1, 2), "change.app", "a, b"),
    ],
)
def test_with_changes_when_something_does_not_exist_then_says_what_does(change: Change, key: str, allowed: str) -> None:
    with pytest.raises(MillraceError) as told:
        CURRENT.with_changes((change,))
    assert (told.value.key, told.value.allowed) == (key, allowed)

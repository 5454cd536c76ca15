"""Which changes of a join its checkpoint allows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from millrace.joins.first_start import FILE, FirstStart
from millrace.joins.join_plan import TIME
from millrace.model.errors import MillraceError
from millrace.model.join import BROADCAST, MP2PF, JoinDefinition, JoinStream, JoinTask

NAMES = ("s", "r", "a", "b")


def definition(*pairs: str, names: tuple[str, ...] = NAMES, forwarding: str = MP2PF) -> JoinDefinition:
    streams = tuple(JoinStream(name, "", "t", {"k": "k"}) for name in names)
    tasks = tuple(JoinTask(pair, pair[0], pair[1], (), 0, 0) for pair in pairs)
    return JoinDefinition(streams, tasks, "results", "checkpoint", 100, forwarding)


def schema(*columns: pa.Field) -> pa.Schema:
    return pa.schema([pa.field(TIME, pa.int64()), *columns])


def started(join: JoinDefinition, of_each: pa.Schema, folder: Path) -> FirstStart:
    """Return what a first start stored."""
    FirstStart.of(join, {stream.name: of_each for stream in join.streams}, (3, 1)).write(folder)
    stored = FirstStart.read(folder)
    assert stored is not None and stored.keys == (3, 1)
    return stored


def test_streams_in_another_order_keep_their_numbers(tmp_path: Path) -> None:
    join = definition("rs", "ab")
    stored = started(join, schema(), tmp_path)
    assert stored.continued(definition("rs", "ab", names=("r", "b", "s", "a"))) == join
    assert FirstStart.read(tmp_path / "nowhere") is None


def test_file_of_an_older_version_is_read_and_gets_the_sides(tmp_path: Path) -> None:
    text = {"streams": {"s": f"{TIME}: int64", "r": f"{TIME}: int64"}, "keys": [4, 2], "forwarding": MP2PF}
    (tmp_path / FILE).write_text(json.dumps(text))
    stored, join = FirstStart.read(tmp_path), definition("rs", names=("r", "s"))
    assert stored is not None and (stored.keys, stored.sides) == ((4, 2), None)
    continued = stored.continued(join)
    assert [stream.name for stream in continued.streams] == ["s", "r"]
    assert stored.with_sides(continued).sides == {"s": 0, "r": 1}


def test_task_that_turns_a_stream_to_the_other_end_of_the_chain_needs_a_new_checkpoint(tmp_path: Path) -> None:
    stored = started(definition("rs", "ab"), schema(), tmp_path)
    assert stored.continued(definition("rs", "ab", "sb")).tasks
    with pytest.raises(MillraceError, match=r"'a': 0.*new checkpoint.*keep the tasks"):
        stored.continued(definition("rs", "ab", "sa"))
    assert started(definition("rs", forwarding=BROADCAST), schema(), tmp_path).sides is None


def test_column_may_become_nullable_get_a_comment_or_move(tmp_path: Path) -> None:
    join = definition("rs", names=("r", "s"))
    key, price = pa.field("key", pa.string(), nullable=False), pa.field("price", pa.list_(pa.float64()))
    stored = started(join, schema(key, price), tmp_path)
    now = schema(price, key.with_nullable(True).with_metadata({"SPARK::metadata::json": '{"comment": "a"}'}))
    assert stored.stored(join, {"r": now, "s": now})["r"].names == [TIME, "key", "price"]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ([pa.field("key", pa.int64())], "differ in key."),
        ([], "differ in key."),
        ([pa.field("key", pa.string()), pa.field("_left_next", pa.bool_())], "differ in left_where of task next."),
        ([pa.field("key", pa.string()), pa.field("_right_near_by", pa.bool_())], "right_where of task near_by."),
    ],
    ids=str,
)
def test_other_columns_or_conditions_need_a_new_checkpoint_and_are_named(
    tmp_path: Path, columns: list[pa.Field], told: str
) -> None:
    join = definition("rs", names=("r", "s"))
    stored = started(join, schema(pa.field("key", pa.string())), tmp_path)
    with pytest.raises(MillraceError, match=r"unchanged columns of r.*new checkpoint") as raised:
        stored.stored(join, {"r": schema(*columns)})
    assert told in str(raised.value)


def test_other_streams_or_forwarding_need_a_new_checkpoint(tmp_path: Path) -> None:
    stored = started(definition("rs", names=("r", "s")), schema(), tmp_path)
    with pytest.raises(MillraceError, match=r"streams r, s.*new checkpoint"):
        stored.continued(definition("ra", names=("r", "a")))
    with pytest.raises(MillraceError, match="keep the forwarding"):
        stored.continued(replace(definition("rs", names=("r", "s")), forwarding=BROADCAST))

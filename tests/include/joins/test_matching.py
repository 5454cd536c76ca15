"""Pairs found by sorting match those found by comparing all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.joins import matching
from millrace.joins.join_plan import TIME
from millrace.joins.matching import condition, pairs
from millrace.model.join import JoinTask
from tests.include.joins.tuples import ROWS, brute_force, table

ON = st.lists(st.sampled_from([("key", "key"), ("other", "other"), ("id", "id")]), unique=True).map(tuple)
SPAN = st.tuples(st.integers(-10, 10), st.integers(0, 15)).map(lambda s: (s[0], s[0] + s[1]))


def found(task: JoinTask, left: pa.Table, right: pa.Table) -> list[tuple[int, int]]:
    portions = list(pairs(task, left, right))
    return sorted((int(i), int(j)) for a, b in portions for i, j in zip(a, b, strict=True))


@settings(deadline=None)  # the first example pays for what Arrow loads
@given(ROWS, ROWS, ON, SPAN)
def test_pairs_of_any_tuples_match_those_of_comparing_all(left, right, on, span) -> None:
    task = JoinTask("t", "r", "s", on, *span)
    assert found(task, table(left), table(right)) == brute_force(task, left, right)


@given(ROWS, st.lists(st.one_of(st.none(), st.booleans()), min_size=25, max_size=25))
def test_pairs_when_a_side_has_a_condition_then_exist_only_if_it_is_true(rows, met) -> None:
    task = JoinTask("t", "r", "s", (), -3, 3)
    left = table(rows).append_column(condition("t", "left"), pa.array(met[: len(rows)], pa.bool_()))
    expected = [(i, j) for i, j in brute_force(task, rows, rows) if met[i]]
    assert found(task, left, table(rows)) == expected


def test_pairs_when_there_are_many_then_come_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MOST_PAIRS", 50)
    rows = [(0, i, "a", 0) for i in range(40)]
    task = JoinTask("t", "r", "s", (("key", "key"),), 0, 0)
    portions = list(pairs(task, table(rows), table(rows)))
    assert [len(a) for a, _ in portions] == [40] * 40
    assert found(task, table(rows), table(rows)) == brute_force(task, rows, rows)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_pairs_of_floating_keys_compare_numbers(kind: pa.DataType) -> None:
    schema = pa.schema([(TIME, pa.int64()), ("key", kind)])
    nan = float("nan")
    left, right = (pa.table([[0] * 4, keys], schema=schema) for keys in ([0.0, -0.0, nan, 0.1], [-0.0, nan, 0.1, None]))
    task = JoinTask("t", "r", "s", (("key", "key"),), 0, 0)
    assert found(task, left, right) == [(0, 0), (1, 0), (2, 1), (3, 2)]


def test_pairs_when_keys_and_times_span_all_numbers_then_none_is_lost() -> None:
    seconds = [-(10**11), 0, 10**11]
    rows = [(t, k, None, 0) for t in seconds for k in (0, 2**62, -(2**62))]
    task = JoinTask("t", "r", "s", (("id", "id"),), 0, 10**11)
    assert found(task, table(rows), table(rows)) == brute_force(task, rows, rows)
    assert np.sum([len(a) for a, _ in pairs(task, table(rows), table(rows))]) == 15

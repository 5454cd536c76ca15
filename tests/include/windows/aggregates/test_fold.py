"""Partials in Arrow, compared with plain Python over the same rows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean, pvariance
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.windows.aggregates import fold
from millrace.windows.aggregates.fold import Fold, StateStep, Step

KEYS = st.one_of(st.none(), st.sampled_from(["a", "b", "c"]))
FLOATS = st.one_of(st.none(), st.floats(-1e6, 1e6), st.just(math.nan))
ROWS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers(-100, 100)), FLOATS), max_size=40)
MOMENTS = pa.struct([("n", pa.int64()), ("mean", pa.float64()), ("m2", pa.float64())])
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("rows", pa.int64()),
        ("n", pa.int64()),
        ("total", pa.int64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("moments", MOMENTS),
        ("state", pa.struct([("n", pa.int64()), ("last", pa.int64())])),
    ]
)


def update(state: tuple[Any, ...], rows: Any) -> tuple[Any, ...]:
    seen = rows["value"].dropna()
    return state[0] + len(rows), int(seen.iloc[-1]) if len(seen) else state[1]


STEPS = (
    Step("count", (), "rows"),
    Step("count", ("i",), "n"),
    Step("sum", ("i",), "total"),
    Step("min", ("f",), "low"),
    Step("max", ("f",), "high"),
    Step("moments", ("i",), "moments"),
    StateStep(("i",), "state", ("value",), lambda: (0, None), update),
)


def table(rows: Iterable[tuple[Any, Any, Any]]) -> pa.Table:
    k, i, f = zip(*rows, strict=True)
    return pa.table({"k": pa.array(k, pa.string()), "i": pa.array(i, pa.int64()), "f": pa.array(f, pa.float64())})


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-6)
    return a == b


def spark_order(value: float) -> tuple[bool, float]:
    return math.isnan(value), 0.0 if math.isnan(value) else value


@settings(deadline=None)
@given(ROWS.filter(bool))
def test_fold_of_nulls_and_nans_matches_python(rows: list[Any]) -> None:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for k, i, f in rows:
        groups[k].append((i, f))
    found = {row["k"]: row for row in Fold(("k",), STEPS, SCHEMA).of(table(rows)).to_pylist()}
    assert found.keys() == groups.keys()
    for k, members in groups.items():
        whole = [i for i, _ in members if i is not None]
        floats = [f for _, f in members if f is not None]
        row = found[k]
        assert (row["rows"], row["n"]) == (len(members), len(whole))
        assert row["total"] == (sum(whole) if whole else None)
        assert same(row["low"], min(floats, key=spark_order, default=None))
        assert same(row["high"], max(floats, key=spark_order, default=None))
        assert row["moments"]["n"] == len(whole)
        assert same(row["moments"]["mean"], float(fmean(whole)) if whole else 0.0)
        assert same(row["moments"]["m2"], float(pvariance(whole) * len(whole)) if whole else 0.0)
        assert row["state"] == {"n": len(members), "last": whole[-1] if whole else None}


@settings(deadline=None)
@given(rows=ROWS, size=st.integers(1, 7), chunk=st.integers(1, 10))
def test_fold_of_rows_in_chunks_adds_up_to_all_rows(rows: list[Any], size: int, chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold, "CHUNK_ROWS", chunk)
        batches = table(rows).to_batches(size) if rows else []
        found = pa.Table.from_batches(list(Fold(("k",), STEPS, SCHEMA)(iter(batches))), SCHEMA).to_pylist()
    assert sum(row["rows"] for row in found) == len(rows)
    assert sum(row["total"] or 0 for row in found) == sum(i or 0 for _, i, _ in rows)


@pytest.mark.parametrize("values", [[2**62, 2**62], [-(2**63), -1]])
def test_fold_of_a_sum_beyond_a_long_fails_unless_unchecked(values: list[int]) -> None:
    rows = table([("a", v, None) for v in values])
    schema = pa.schema([("k", pa.string()), ("total", pa.int64())])
    step = (Step("sum", ("i",), "total"),)
    with pytest.raises(pa.ArrowInvalid):
        Fold(("k",), step, schema).of(rows)
    wrapped = (sum(values) + 2**63) % 2**64 - 2**63
    assert Fold(("k",), step, schema, checked=False).of(rows)["total"].to_pylist() == [wrapped]


def test_fold_of_sums_of_large_numbers_that_cancel_is_exact() -> None:
    rows = table([("a", v, None) for v in (2**62, 2**62, -(2**62), 5)])
    schema = pa.schema([("k", pa.string()), ("total", pa.int64())])
    assert Fold(("k",), (Step("sum", ("i",), "total"),), schema).of(rows)["total"].to_pylist() == [2**62 + 5]

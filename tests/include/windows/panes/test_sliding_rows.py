"""Windows by number of rows, compared with plain Python."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from millrace.model.errors import MillraceError
from tests.include.windows.panes.same import different

pytestmark = pytest.mark.spark
ROWS = [(i * 37 % 101, None if i % 4 == 0 else i % 3, i * 0.5) for i in range(101)]
"""Unordered rows: a number, a key, a value."""


def windows(size: int, slide: int, keyed: bool) -> list[tuple[Any, ...]]:
    groups: dict[Any, list[tuple[int, float]]] = defaultdict(list)
    for n, k, v in ROWS:
        groups[k if keyed else None].append((n, v))
    found = []
    for k, members in groups.items():
        values = [v for _, v in sorted(members)]
        for start in range(0, len(values) - size + 1, slide):
            window = values[start : start + size]
            key = (k,) if keyed else ()
            found.append(((start, start + size), *key, sum(window), max(window), window[0]))
    return found


@pytest.mark.parametrize(
    ("size", "slide", "keyed"), [(12, 4, True), (10, 4, True), (5, 5, True), (7, 3, False), (40, 1, True), (1, 1, True)]
)
def test_agg_of_windows_by_rows_matches_python_for_full_ones(spark: Any, size: int, slide: int, keyed: bool) -> None:
    from millrace.windows import panes

    first = panes.user_defined(
        "first",
        ["n", "v"],
        state="n long, v double",
        returns="double",
        init=lambda: (None, None),
        update=lambda state, rows: tuple(rows.loc[rows["n"].idxmin(), ["n", "v"]]),
        merge=lambda a, b: min(a, b),
        finish=lambda state: state[1],
    )
    data = spark.createDataFrame(ROWS, "n long, k long, v double").repartition(3)
    made = panes.sliding_rows(data, "n", size, slide, ["k"] if keyed else [])
    keys = 1 + keyed
    expected = windows(size, slide, keyed)
    found = made.agg(panes.sum("v"), panes.max("v"))
    assert not different([(tuple(r[0]), *r[1:]) for r in found.collect()], [w[:-1] for w in expected], keys)
    if slide > 1:
        of_user = [(tuple(r[0]), *r[1:]) for r in made.agg(first).collect()]
        assert not different(of_user, [(*w[:keys], w[-1]) for w in expected], keys)


def test_sliding_rows_when_arguments_are_bad_then_error_names_them(spark: Any) -> None:
    from millrace.windows import panes

    data = spark.createDataFrame(ROWS, "n long, k long, v double")
    for arguments, key in (
        (("n", 0, 1), "size"),
        (("n", 2.5, 1), "size"),
        (("n", 4, 5), "slide"),
        (("n", 4, True), "slide"),
        (([], 4, 2), "order"),
    ):
        with pytest.raises(MillraceError) as caught:
            panes.sliding_rows(data, *arguments)
        assert caught.value.key == key
    with pytest.raises(MillraceError, match="a stream"):
        panes.sliding_rows(spark.readStream.format("rate").load(), "value", 4, 2)

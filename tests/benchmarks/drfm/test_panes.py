"""How results of windows are compared."""

import pyarrow as pa

from benchmarks.drfm.panes import _different

ROWS = [(0, 60, 1, 5, 2.0, 3.0), (0, 60, 2, 4, 2.5, 9.0), (1, 61, 1, 5, 1.0, 3.0)]


def table(rows):
    return pa.table(dict(zip(("start", "end", "key", "n", "mean", "top"), zip(*rows, strict=True), strict=True)))


def test_different_when_rows_are_reordered_and_means_differ_in_last_digits_then_is_zero():
    turned = [(*row[:4], row[4] * (1 + 1e-12), row[5]) for row in reversed(ROWS)]

    assert _different(table(turned), table(ROWS)) == 0


def test_different_when_a_window_is_missing_extra_or_has_another_value_then_is_counted():
    assert _different(table(ROWS[:2]), table(ROWS)) == 1
    assert _different(table(ROWS), table(ROWS[1:])) == 1
    for at, value in ((0, 7), (3, 6), (4, 2.1), (5, 3.5)):
        changed = [(*ROWS[0][:at], value, *ROWS[0][at + 1 :]), *ROWS[1:]]
        assert _different(table(changed), table(ROWS)) == (2 if at == 0 else 1), at

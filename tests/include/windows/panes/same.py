"""Compare two frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def equal(a: Any, b: Any) -> bool:
    """Say if two values are the same; sums of doubles may differ in their last digits by the order of rows."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return a == b


def different(ours: Sequence[Any], theirs: Sequence[Any], keys: int) -> list[tuple[Any, Any]]:
    """Return the rows that only one has or that differ; the first ``keys`` columns identify rows."""

    def by_key(rows: Sequence[Any]) -> dict[str, tuple[Any, ...]]:
        found = {str(tuple(row)[:keys]): tuple(row) for row in rows}
        assert len(found) == len(rows), "a window and key has two rows"
        return found

    a, b = by_key(ours), by_key(theirs)
    pairs = [(a.get(k), b.get(k)) for k in sorted(a.keys() | b.keys())]
    return [(x, y) for x, y in pairs if x is None or y is None or not all(map(equal, x, y))]

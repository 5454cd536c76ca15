"""The second level: aggregates of keys whose rows are spread over several workers."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from include.windows.aggregates.aggregate import Aggregate
from include.windows.aggregates.plan import Plan

_AT = "__at"


def merged(rows: DataFrame, key: str | Sequence[str], *aggregates: Aggregate) -> DataFrame:
    """Return a row for each key: its columns, then the aggregates.

    Each worker folds the rows it has, wherever ``spread`` put them; only a partial a key and worker is shuffled again.
    It pays where folding is the work, as with ``user_defined``. For count, sum and the like ``groupBy`` folds before
    its shuffle too.

    Args:
        rows: What ``spread`` returned: a batch, or a stream in output mode ``update`` or ``complete``.
        key: What to group by.
        aggregates: What to compute. ``merge`` of ``user_defined`` gets states in no particular order here.

    Raises:
        MillraceError: If there is no aggregate, names occur twice, or ``user_columns`` is among them.
    """
    plan = Plan(rows, (key,) if isinstance(key, str) else tuple(key), aggregates)
    partials = plan.by_arrow(plan.prepared({_AT: sf.lit(0)}), [], _AT)
    return plan.merged(partials, [], sf.col(_AT))

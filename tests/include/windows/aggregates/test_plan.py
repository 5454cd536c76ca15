"""The columns that are transferred to Python."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark


def test_prepared_has_a_column_shared_by_aggregates_once(spark: Any) -> None:
    from pyspark.sql import functions as sf

    from millrace.windows import panes
    from millrace.windows.aggregates.plan import AggregationPlan

    rows = spark.range(9).select((sf.col("id") % 2).alias("k"), sf.col("id").cast("double").alias("v"), "id")
    named = AggregationPlan(rows, ("k",), (panes.count("v"), panes.avg("v"), panes.max("v"), panes.count()))
    assert len(named.prepared({}).columns) == 2
    aggregates = (panes.max("id"), panes.avg("id").alias("mean"), panes.max(-sf.col("id")).alias("neg"))
    cast = AggregationPlan(rows, ("k",), aggregates)
    prepared = cast.prepared({})
    # the mean of whole numbers needs them as doubles, and its count does not
    assert [f.dataType.simpleString() for f in prepared.schema] == ["bigint", "bigint", "double", "bigint"]
    merged = cast.merged(cast.by_arrow(prepared.withColumn("at", sf.lit(0)), [], "at"), [], sf.col("at"))
    assert sorted(map(tuple, merged.collect())) == [(0, 8, 4.0, 0), (1, 7, 4.0, -1)]

"""Which types Spark can hash."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructField, StructType, VariantType

from millrace.windows.partitioning.sketch import hashable

MAP = MapType(StringType(), LongType())


def struct(*kinds: DataType) -> StructType:
    return StructType([StructField(f"c{i}", kind) for i, kind in enumerate(kinds)])


@pytest.mark.parametrize("bad", [MAP, VariantType()], ids=str)
def test_maps_and_variants_are_not_hashable_at_any_depth(bad: DataType) -> None:
    for kind in (bad, ArrayType(bad), struct(LongType(), bad), ArrayType(struct(ArrayType(bad)))):
        assert not hashable(kind)


def test_other_types_are_hashable_at_any_depth() -> None:
    for kind in (LongType(), ArrayType(StringType()), struct(LongType(), ArrayType(struct(StringType())))):
        assert hashable(kind)

"""Data files of a Delta table; those read last stay in memory, as they never change."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

KEPT_FILES = 512
"""Files that are kept: more than the half hour that an evaluation reads several times over has at one app's 5 s."""


class DataFiles:
    """Reads data files of one lake; each once, as long as it is among the last :data:`KEPT_FILES`."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Path, pa.Table] = OrderedDict()

    def read(self, file: Path, partition: Mapping[str, str | None], schema: pa.Schema) -> pa.Table:
        """Return a file's rows with their partition's columns.

        Args:
            file: The data file.
            partition: Values of the partition columns as the log tells them.
            schema: The table's columns, for the partition columns' types.

        Raises:
            FileNotFoundError: If it is gone.
            OSError: If it cannot be read.
            pyarrow.ArrowException: If it is no data file.
        """
        rows = self._kept.get(file)
        if rows is None:
            content = pa.BufferReader(file.read_bytes())
            rows = pq.ParquetFile(content, pre_buffer=False).read(use_threads=False)
            for name, value in partition.items():
                if name not in rows.column_names:
                    kind = schema.field(name).type if name in schema.names else pa.string()
                    rows = rows.append_column(name, _constant(value, len(rows), kind))
            self._kept[file] = rows
            if len(self._kept) > KEPT_FILES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(file)
        return rows


@functools.lru_cache(maxsize=256)
def _constant(value: str | None, count: int, kind: pa.DataType) -> pa.Array:
    if value is None:
        return pa.nulls(count, kind)
    return pa.repeat(pc.cast(pa.scalar(value), kind), count)

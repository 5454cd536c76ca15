"""Data files of a Delta table. The files read last stay in memory, as they never change."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millrace.lake.kept import Kept
from millrace.lake.location import Location

KEPT_FILES = 512
"""Files kept: more than one app writes, every 5 s, in the half hour that an evaluation reads several times."""


class DataFiles:
    """Reads data files, each only once while it is among those read last.

    Args:
        location: Folder or prefix of the files.
        most: Files to keep.
    """

    def __init__(self, location: Location, most: int = KEPT_FILES) -> None:
        self._location = location
        self._kept = Kept[str, pa.Table](most)

    def read(self, file: str, partition: Mapping[str, str | None], schema: pa.Schema) -> pa.Table:
        """Return a file's rows with their partition's columns.

        Args:
            file: The data file, relative to the location.
            partition: Values of the partition columns, as in the log.
            schema: The table's columns, for the types of the partition columns.

        Raises:
            FileNotFoundError: If the file is gone.
            OSError: If it cannot be read.
            pyarrow.ArrowException: If it is not a data file.
        """
        rows = self._kept.get(file)
        if rows is None:
            content = pa.BufferReader(self._location.read(file))
            rows = pq.ParquetFile(content, pre_buffer=False).read(use_threads=False)
            for name, value in partition.items():
                if name not in rows.column_names:
                    kind = schema.field(name).type if name in schema.names else pa.string()
                    rows = rows.append_column(name, _constant(value, len(rows), kind))
        self._kept.put(file, rows)
        return rows


@functools.lru_cache(maxsize=256)
def _constant(value: str | None, count: int, kind: pa.DataType) -> pa.Array:
    if value is None:
        return pa.nulls(count, kind)
    return pa.repeat(pc.cast(pa.scalar(value), kind), count)

"""Appends that a stale writer cannot make: each commit carries the writer's generation and what it contains.

A Delta table refuses a commit if another writer has committed one of its transaction ids since the handle was read.
Every commit here carries the generation's id. So the table refuses a predecessor with an old handle, and a predecessor
with a fresh handle sees the higher generation before it writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from millrace.lake.commits import append_rows, dated, is_conflict, is_stale
from millrace.lake.schemas import TABLES
from millrace.lake.store import Lake, to_arrow
from millrace.lake.table_errors import unwritable
from millrace.model.errors import Conflict


class Fenced(Exception):  # noqa: N818 - an outcome: a newer generation writes now
    """A newer generation has committed; this writer must stop writing."""


class FencedTable:
    """One table of the lake, written by one generation of an app at a time.

    Args:
        lake: The lake; the table is created on first use.
        table: The table's name, for example ``telemetry/batches``.
        fence: Transaction id that all generations share.
        generation: This writer's generation, >= 1.
    """

    def __init__(self, lake: Lake, table: str, fence: str, generation: int) -> None:
        self._lake, self._table, self._fence, self._generation = lake, table, fence, generation
        self._handle: DeltaTable | None = None

    def committed(self, ids: Sequence[str]) -> Mapping[str, int]:
        """Return the last number committed under each transaction id that has one.

        Raises:
            Fenced: If a newer generation has committed.
            MillraceError: If the lake cannot be read or created.
        """
        handle = self._fresh()
        newest = handle.transaction_version(self._fence)
        if newest is not None and newest > self._generation:
            raise Fenced(f"{self._fence}: generation {newest} has taken over from generation {self._generation}")
        numbers = {i: handle.transaction_version(i) for i in ids}
        return {i: int(n) for i, n in numbers.items() if n is not None}

    def append(self, rows: Sequence[Mapping[str, Any]], transactions: Mapping[str, int]) -> int:
        """Append rows as one commit on the handle that :meth:`committed` has read, and return the version.

        Args:
            rows: Rows as mappings, without those that ``committed`` shows as written.
            transactions: Number that each transaction id reaches with this commit.

        Raises:
            Conflict: If another writer committed one of the ids in between, or added columns: call ``committed`` again.
            MillraceError: If the lake cannot be written.
        """
        handle = self._handle if self._handle is not None else self._fresh()
        marks = dated({self._fence: self._generation, **transactions})
        try:
            return append_rows(handle, to_arrow(rows, TABLES[self._table]), marks)
        except (OSError, DeltaError) as error:
            self._handle = None
            if is_conflict(error) or is_stale(error):
                raise Conflict(f"{self._table}: {self._fence} was committed by another writer") from error
            raise unwritable(self._lake.at(self._table), error) from error

    def _fresh(self) -> DeltaTable:
        try:
            if self._handle is None:
                self._lake.create(self._table)
                self._handle = self._lake.at(self._table).table()
            else:
                self._handle.update_incremental()
        except (OSError, DeltaError) as error:
            self._handle = None
            raise unwritable(self._lake.at(self._table), error) from error
        return self._handle

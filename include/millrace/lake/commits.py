"""Commits to a Delta table, and what it means if one fails."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

MAX_COMMIT_RETRIES = 50
"""Appends of several writers conflict only in the log. Four in a tight loop reach deltalake's default of 15."""
PROPERTIES = CommitProperties(max_commit_retries=MAX_COMMIT_RETRIES)
"""For commits without application transactions."""
HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""Cleaning would list the whole log at every append, so maintenance does it."""


def dated(transactions: Mapping[str, int], *, lasting: bool = False) -> list[Transaction]:
    """Return application transactions with their date, or without one if they last: a table forgets only dated ids."""
    now_ms = None if lasting else int(time.time() * 1000)
    return [Transaction(app_id, number, now_ms) for app_id, number in transactions.items()]


def append_rows(handle: DeltaTable, rows: pa.Table, transactions: Sequence[Transaction]) -> int:
    """Commit rows on a table's handle as it is and return the version; columns that the table lacks are added.

    Args:
        handle: The table.
        rows: Rows; columns that only the table has are null.
        transactions: Application transactions of the commit.

    Raises:
        CommitFailedError: If another writer committed one of ``transactions`` since the handle was read, or changed
            the table's columns (:func:`is_stale`).
        DeltaError: If the table cannot be written.
    """
    properties = CommitProperties(app_transactions=list(transactions) or None, max_commit_retries=MAX_COMMIT_RETRIES)
    same = {field.name for field in handle.schema().fields} == set(rows.column_names)
    mode = None if same else "merge"
    write_deltalake(
        handle,
        rows,
        mode="append",
        schema_mode=mode,
        commit_properties=properties,
        post_commithook_properties=HOOKS,
    )
    return int(handle.version())


def is_conflict(error: Exception) -> bool:
    """Return whether a commit failed because another writer committed one of its application transactions."""
    return isinstance(error, CommitFailedError) and "oncurrent transaction failed" in str(error)


def is_stale(error: Exception) -> bool:
    """Return whether a commit failed because the table's columns changed, or old rows were deleted.

    It is worth a try with a fresh handle. deltalake assumes that every append has read the whole table.
    """
    reasons = ("etadata changed", "concurrent transaction deleted data")
    return isinstance(error, CommitFailedError) and any(reason in str(error) for reason in reasons)


def is_committed(handle: DeltaTable, transactions: Mapping[str, int]) -> bool:
    """Return whether any of the transactions was committed with its number or a higher one."""
    last = ((handle.transaction_version(app_id), number) for app_id, number in transactions.items())
    return any(committed is not None and committed >= number for committed, number in last)

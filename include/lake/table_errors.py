"""What a person sees when a table cannot be read or written."""

from __future__ import annotations

from include.model.errors import MillraceError


def unreadable(what: object, error: Exception, key: str = "lake") -> MillraceError:
    """Return the problem of a table, a folder or one of its files that cannot be read."""
    remedy = f"Restore it, or check its permissions and its _delta_log ({_reason(error)})."
    return MillraceError(key, str(what), "readable Delta tables", remedy)


def unwritable(what: object, error: Exception, key: str = "lake") -> MillraceError:
    """Return the problem of a table that cannot be written."""
    remedy = f"Free space, or make the folder and its _delta_log writable, then try again ({_reason(error)})."
    return MillraceError(key, str(what), "a writable folder with free space", remedy)


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1][:300]

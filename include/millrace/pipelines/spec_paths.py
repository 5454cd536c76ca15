"""The paths in a spec. Relative ones belong to the folder of the spec's file."""

from __future__ import annotations

from pathlib import Path

from millrace.model.errors import MillraceError
from millrace.model.spec import resolve_script

UNUSABLE = (OSError, RuntimeError, ValueError)
"""Errors of pathlib: no permission, a user without a home folder (``~nobody/x``), a character that no path may have."""


def existing(path: Path, key: str, script: str) -> Path:
    """Return the absolute path of a script.

    Args:
        path: The spec's file.
        key: Key of the script.
        script: The path in the spec.

    Raises:
        MillraceError: If there is no such file, or the path cannot be read.
    """
    try:
        found = resolve_script(script, path.parent)
        if found.is_file():
            return found
        remedy = f"Create {found} or correct the path."
    except UNUSABLE as error:
        remedy = f"Correct the path or its permissions ({str(error).rstrip('.')})."
    raise MillraceError(f"{path.name}: {key}", script, "an existing file", remedy)

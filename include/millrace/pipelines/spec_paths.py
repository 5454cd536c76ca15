"""The paths in a spec. Relative ones belong to the folder of the spec's file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from millrace.model.errors import MillraceError
from millrace.model.fleet_spec import Fleet
from millrace.model.join_spec import Join
from millrace.model.spec import PipelineSpec, absolute_path

UNUSABLE = (OSError, RuntimeError, ValueError)
"""Errors of pathlib: no permission, a user without a home folder (``~nobody/x``), a character that no path may have."""
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def with_absolute_paths(path: Path, spec: PipelineSpec) -> PipelineSpec:
    """Return a spec with absolute paths in its sections; the scripts of its apps stay as they are.

    Args:
        path: The spec's file.
        spec: The spec.

    Raises:
        MillraceError: If a path is unusable, or the fleet's script does not exist.
    """
    changes: dict[str, Any] = {}
    if spec.fleet is not None:
        changes["fleet"] = _fleet(path, spec.fleet)
    if spec.join is not None:
        changes["join"] = _join(path, spec.join)
    if spec.profile is not None:
        source = _absolute(path, "profile.source", spec.profile.source)
        changes["profile"] = spec.profile.model_copy(update={"source": source})
    return spec.model_copy(update=changes)


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
        found = absolute_path(script, path.parent)
        if found.is_file():
            return found
        remedy = f"Create {found} or correct the path."
    except UNUSABLE as error:
        remedy = f"Correct the path or its permissions ({str(error).rstrip('.')})."
    raise MillraceError(f"{path.name}: {key}", script, "an existing file", remedy)


def _fleet(path: Path, fleet: Fleet) -> Fleet:
    streams = {
        kind: _absolute(path, f"fleet.streams.{kind}", named)
        for kind, named in fleet.streams.source.items()
        if kind in ("folders", "file")
    }
    changes = {
        "script": str(existing(path, "fleet.script", fleet.script)),
        "checkpoints": _absolute(path, "fleet.checkpoints", fleet.checkpoints),
        "streams": fleet.streams.model_copy(update=streams),
    }
    return fleet.model_copy(update=changes)


def _join(path: Path, join: Join) -> Join:
    streams = {
        name: stream.model_copy(update={"source": _absolute(path, f"join.streams.{name}.source", stream.source)})
        for name, stream in join.streams.items()
    }
    results = _absolute(path, "join.results", join.results)
    checkpoint = _absolute(path, "join.checkpoint", join.checkpoint)
    return join.model_copy(update={"streams": streams, "results": results, "checkpoint": checkpoint})


def _absolute(path: Path, key: str, text: str) -> str:
    """Return a path as an absolute one; URIs and absolute paths stay as written."""
    if not text or text.startswith("/") or URI.match(text):
        return text
    try:
        return str(absolute_path(text, path.parent))
    except UNUSABLE as error:
        remedy = f"Correct it ({str(error).rstrip('.')})."
        raise MillraceError(f"{path.name}: {key}", text, "a path or a URI", remedy) from None

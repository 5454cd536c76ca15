"""Recorded values that others published, as files of a data folder; missing files are reported, never made up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.data import folder

WORKLOADS = "conttune_real_workloads.json"
ABILITIES = "conttune_throughput_q1.json"


def workload(name: str) -> Sequence[float] | None:
    """Return a recorded workload, one aggregate source rate per minute; None if its file is missing.

    Args:
        name: ``etl`` or ``monitoring``.
    """
    found = _read(WORKLOADS)
    return None if found is None else [float(v) for v in found[name]]


def abilities() -> Mapping[int, Sequence[float]] | None:
    """Return repeated measurements of an operator's processing ability by p, rows per second; None without the file."""
    found = _read(ABILITIES)
    if found is None:
        return None
    return {int(p): [float(v) for v in values] for p, values in sorted(found["observations"].items(), key=_level)}


def _level(item: tuple[str, Any]) -> int:
    return int(item[0])


def _read(name: str) -> Any:
    path = folder() / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

"""Measured key groups, as a profile tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from include.model.placement import KeyGroups
from include.model.signals import Signals
from optimizers.conformance.builders import NOON, app_signals, signals


def groups(rows: Sequence[float], flows: Sequence[tuple[int, int, float]] = (), **changes: Any) -> KeyGroups:
    n = len(rows)
    told: dict[str, Any] = {
        "version": 1,
        "since": NOON - timedelta(hours=1),
        "until": NOON,
        "operator": tuple("plane" if i < n / 2 else "route" for i in range(n)),
        "key_group": tuple(range(n)),
        "app": ("delays",) * n,
        "rows_per_s": tuple(float(r) for r in rows),
        "bytes_per_s": tuple(100.0 * r for r in rows),
        "cpu_ratio": (None,) * n,
        "state_bytes": (None,) * n,
        "producer": tuple(a for a, _, _ in flows),
        "consumer": tuple(b for _, b, _ in flows),
        "flow_rows_per_s": tuple(float(r) for _, _, r in flows),
    }
    return KeyGroups(**(told | changes))


def look(measured: KeyGroups | None) -> Signals:
    return replace(signals(app_signals(2, 100.0, None)), key_groups=measured)

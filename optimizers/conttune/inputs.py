"""What keeps a look from deciding: missing is not zero, and impossible figures decide nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from include.contracts.deployment import Deployment
from include.contracts.signals import AppSignals, Signals
from optimizers.conttune.options import Options
from optimizers.conttune.reasons import Reason

Problem = tuple[Reason, Mapping[str, str]]
"""A reason to hold, and the words of its sentence beside ``app``."""


def problem(signals: Signals, app: AppSignals, current: Deployment) -> Problem | None:
    """Return what stands in the way of any decision on an app; None if nothing does."""
    if app.app not in current.apps:
        return Reason.NO_APP, {}
    if not current.running:
        return Reason.STOPPED, {}
    for name, value, ok, allowed in _figures(app):
        if not ok:
            return Reason.BAD_SIGNALS, {"name": name, "value": f"{value:g}", "allowed": allowed}
    if signals.settling or app.slots != current.apps[app.app].slots:
        return Reason.SETTLING, {}
    return None


def unknown(app: AppSignals, options: Options) -> Reason | None:
    """Return which figure is missing that sizing needs; None if none is."""
    if rate(app, options) is None:
        return Reason.RATE_UNKNOWN
    if options.catch_up and app.backlog_rows is None:
        return Reason.BACKLOG_UNKNOWN
    return None


def rate(app: AppSignals, options: Options) -> float | None:
    """Return lambda: the true arrival rate, or what is processed where that is all the paper knows."""
    return app.arrival_rows_per_s if options.known_arrival_rate else app.processed_rows_per_s


def _figures(app: AppSignals) -> Iterator[tuple[str, float, bool, str]]:
    least = {
        "arrival_rows_per_s": app.arrival_rows_per_s,
        "processed_rows_per_s": app.processed_rows_per_s,
        "backlog_rows": app.backlog_rows,
        "restart_lag_rows": app.restart_lag_rows,
        "fixed_s": app.capacity.fixed_s if app.capacity else None,
        "rows_per_s_error": app.capacity.rows_per_s_error if app.capacity else None,
    }
    for name, value in least.items():
        if value is not None:
            yield name, value, math.isfinite(value) and value >= 0, "a finite number >= 0"
    for name, value in (("backpressured_ratio", app.backpressured_ratio), ("slot_busy_ratio", app.slot_busy_ratio)):
        if value is not None:
            yield name, value, 0 <= value <= 1, "0 to 1"
    if app.parallelism is not None:
        yield "parallelism", app.parallelism, app.parallelism >= 1, ">= 1"
    if app.capacity is not None:
        ability = app.capacity.rows_per_s
        yield "rows_per_s", ability, math.isfinite(ability) and ability > 0, "a finite number > 0"
        yield "capacity.parallelism", app.capacity.parallelism, app.capacity.parallelism >= 1, ">= 1"

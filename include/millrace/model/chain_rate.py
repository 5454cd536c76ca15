"""The rate from outside at which apps that feed each other work, from a rate of each of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from graphlib import TopologicalSorter

from millrace.model.signals import Edge, Signals


def chain_rate(signals: Signals, rates: Mapping[str, float | None]) -> float | None:
    """Return the arrival from outside, rows per second, at which the first of the apps is at its own rate.

    Args:
        signals: Measurements of one app or several.
        rates: A rate of each app, rows per second, for example what it sustains; None if unknown.

    Returns:
        The rate; None if it is unknown.
    """
    if len(signals.apps) == 1:
        return rates.get(signals.apps[0].app)
    needs, least = _needs(signals), math.inf
    for app in signals.apps:
        rate, need = rates.get(app.app), needs.get(app.app)
        if rate is None or need is None:
            return None
        least = min(least, rate / need if need > 0 else math.inf)
    return least if math.isfinite(least) else None


def _needs(signals: Signals) -> Mapping[str, float | None]:
    """Return the rows that each app has to take in per row that arrives from outside; None if unknown.

    By ratios, not by what arrives at each app now: what passes an edge may be some batches old.
    """
    into: dict[str, list[Edge]] = {app.app: [] for app in signals.apps}
    for edge in signals.edges:
        into.setdefault(edge.consumer, []).append(edge)
    heads = [name for name, edges in into.items() if not edges]
    arrival, needs = signals.arrival_rows_per_s, dict[str, float | None]()
    for name in TopologicalSorter({name: [e.producer for e in edges] for name, edges in into.items()}).static_order():
        app = signals.app(name)
        if into.get(name):
            passed = [_passed(edge, needs.get(edge.producer), signals) for edge in into[name]]
            needs[name] = None if None in passed else sum(rows for rows in passed if rows is not None)
        elif len(heads) == 1 or not arrival:
            needs[name] = 1 / max(1, len(heads))
        else:
            needs[name] = None if app is None or app.arrival_rows_per_s is None else app.arrival_rows_per_s / arrival
    return needs


def _passed(edge: Edge, need: float | None, signals: Signals) -> float | None:
    """Return the rows that pass an edge per row that arrives from outside; None if unknown."""
    producer = signals.app(edge.producer)
    taken = edge.taken_rows_per_s or (producer.processed_rows_per_s if producer else None)
    if need is None or edge.rows_per_s is None or not taken:
        return None
    return need * edge.rows_per_s / taken

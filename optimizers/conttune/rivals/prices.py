"""What Dragster keeps of an operator between looks: the price of its constraint, and measurements by rate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizers.conttune.rivals.throughput import Point, Points
from optimizers.conttune.stored import items, mapping, number, whole

RATE_STEP = 0.05
"""Rates that differ by less than about this share count as the same."""
MAX_RATES = 50
"""Rates that are remembered of an operator, the last ones seen."""
MAX_PRICE = 1.0
"""Highest price: aiming at twice the rate is enough, whatever was missed."""
MAX_LOOKS = 5
"""Looks that a level's mean remembers."""


@dataclass(frozen=True)
class Notes:
    """Of one operator: its price, and what was measured at each rate, the last seen rate last."""

    price: float
    by_rate: dict[str, Points]


def rounded(rate: float) -> str:
    """Return the name under which measurements at a rate are remembered."""
    return str(round(math.log1p(rate) / math.log1p(RATE_STEP)))


def seen(notes: Notes, rate: float, p: int, ability: float, step: float) -> Notes:
    """Return the notes after a look: the dual step, and one more measurement at this rate.

    The first look at another rate takes no dual step: what it misses says nothing of what was chosen for that rate.

    Args:
        notes: Before.
        rate: lambda, rows a second, >= 0.
        p: The level that was measured.
        ability: f(p), rows a second, > 0.
        step: Of the dual variable.
    """
    name, price = rounded(rate), notes.price
    if name == next(reversed(notes.by_rate), None):  # p was chosen for this rate
        missed = (rate - ability) / rate if rate > 0 else -1.0
        price = min(MAX_PRICE, max(0.0, price + step * max(missed, -1.0)))
    points = dict(notes.by_rate.get(name, {}))
    before = points.get(p, Point(ability, 0))
    looks = min(before.looks + 1, MAX_LOOKS)
    points[p] = Point(before.ability + (ability - before.ability) / looks, looks)
    others = {other: found for other, found in notes.by_rate.items() if other != name}
    kept = dict(list(others.items())[-(MAX_RATES - 1) :])
    return Notes(price, {**kept, name: points})


def read(stored: object) -> dict[str, Notes]:
    """Return stored notes by operator."""
    found = {}
    for name, value in mapping(stored).items():
        note = mapping(value)
        by_rate = {rate: points for rate, v in _pairs(note.get("by_rate")) if (points := _points(v))}
        found[name] = Notes(min(number(note.get("price"), 0.0) or 0.0, MAX_PRICE), by_rate)
    return found


def _pairs(stored: object) -> Sequence[tuple[str, Any]]:
    """Return the pairs of a stored list of pairs, in its order."""
    return [(str(pair[0]), pair[1]) for value in items(stored) if len(pair := items(value)) == 2]


def _points(stored: object) -> Points:
    found = {}
    for value in items(stored):
        match items(value):
            case (p, ability, looks) if whole(p) and (number(ability, 0.0) or 0.0) > 0 and whole(looks):
                found[whole(p)] = Point(float(ability), whole(looks))
    return found


def written(notes: Mapping[str, Notes]) -> Mapping[str, Any]:
    """Return notes as a JSON value."""
    return {
        name: {
            "price": note.price,
            "by_rate": [
                [rate, [[p, point.ability, point.looks] for p, point in sorted(points.items())]]
                for rate, points in note.by_rate.items()
            ],
        }
        for name, note in sorted(notes.items())
    }

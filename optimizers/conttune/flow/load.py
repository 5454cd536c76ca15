"""How the arrival rate has moved: room for what it often does, and a look ahead.

The rate is kept as runs of about equal rate. From them:
- ``fluctuation``: where most changes are small and go up and down the rate wanders around a level, and following each
  move would be a reconfiguration for nothing. Room for nine tenths of the time of late ends that. Where changes are
  mostly large, none is kept: it would be paid for and hardly ever used.
- ``ahead``: a rise that a steady trend or a repetition of earlier runs tells.
Both are factors of the present rate, >= 1. A step is sized with them; whether one is due, a rise ahead alone says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from optimizers.conttune.inputs import LEAST_ABILITY

SAME = 0.03
"""Rates that differ by less belong to one run."""
MOST_RUNS = 240
RECENT_RUNS = 24
"""Runs that tell how the rate moves of late."""
LEAST_RUNS = 4
NEAR = 0.35
"""A rate within this share above the present one is near; beyond, a step of its own is due."""
USUAL_SHARE = 0.9
"""Share of the time of late that the room covers: what is rarer is worth a step of its own."""
SMALL_CHANGE = 0.25
CALM, TURNS = 0.7, 0.33
"""Shares of small changes and of turns from which the rate is said to wander; noise turns in two of three."""
LOOKS = 8
"""Latest looks that a trend is told from."""
STEADY = 0.85
"""Share of the rate's variation that a line must explain to be a trend."""
HORIZON_LOOKS, SPAN_LOOKS = 2.0, 14.0
"""A step decided now serves from the next look on, until the one after it; it is sized to serve for longer."""
MATCHES = 3
"""Runs that must have come again before a repetition is believed."""


@dataclass(frozen=True)
class Run:
    """Looks in a row with about the same rate."""

    rate: float
    looks: int


@dataclass(frozen=True)
class Loads:
    """The runs, newest last, and the rates of the latest looks."""

    runs: tuple[Run, ...] = ()
    latest: tuple[float, ...] = ()

    def seen(self, rate: float) -> Loads:
        """Return the loads after one more look."""
        latest = (*self.latest, rate)[-LOOKS:]
        if self.runs:
            last = self.runs[-1]
            if abs(rate - last.rate) <= SAME * max(rate, last.rate):
                mean = (last.rate * last.looks + rate) / (last.looks + 1)
                return Loads((*self.runs[:-1], Run(mean, last.looks + 1)), latest)
        return Loads((*self.runs, Run(rate, 1))[-MOST_RUNS:], latest)


def fluctuation(loads: Loads) -> float:
    """Return the factor that covers what the rate does of late, >= 1."""
    recent = loads.runs[-RECENT_RUNS:]
    if len(recent) <= LEAST_RUNS or recent[-1].rate <= 0:
        return 1.0
    moves = [math.log(b.rate / a.rate) for a, b in pairwise(recent) if min(a.rate, b.rate) >= LEAST_ABILITY]
    if not moves or sum(abs(m) <= math.log1p(SMALL_CHANGE) for m in moves) < CALM * len(moves):
        return 1.0
    turns = sum(a * b < 0 for a, b in pairwise(moves))
    if turns < TURNS * (len(moves) - 1):
        return 1.0
    now = recent[-1].rate
    near = sorted((r.rate, r.looks) for r in recent if r.rate <= now * (1 + NEAR))
    spent, all_looks = 0, sum(looks for _, looks in near)
    for rate, looks in near:
        spent += looks
        if spent >= USUAL_SHARE * all_looks:
            return max(1.0, rate / now)
    return 1.0


def ahead(loads: Loads) -> tuple[float, float]:
    """Return the factors that cover a rise expected by the look after the next one, and for a while; both >= 1."""
    if not loads.latest or loads.latest[-1] < LEAST_ABILITY:
        return 1.0, 1.0
    again = _repetition(loads)
    soon, later = (max(1.0, _trend(loads, looks), again) for looks in (HORIZON_LOOKS, SPAN_LOOKS))
    return soon, max(soon, later)


def _trend(loads: Loads, looks: float) -> float:
    """Return what a steady rise of the logarithm comes to so many looks from now; 1 where the rate does not rise so.

    A straight line explains a steady rise, and three quarters of a single jump at most.
    """
    if len(loads.latest) < LOOKS or min(loads.latest) < LEAST_ABILITY:
        return 1.0
    x, y = np.arange(LOOKS, dtype=float), np.log(loads.latest)
    slope, base = np.polyfit(x, y, 1)
    spread = float(np.sum((y - y.mean()) ** 2))
    left = float(np.sum((y - base - slope * x) ** 2))
    if slope <= 0 or left > (1 - STEADY) * spread:
        return 1.0
    return math.exp(base + slope * (LOOKS - 1 + looks) - y[-1])


def _repetition(loads: Loads) -> float:
    runs = loads.runs
    for lag in range(2, len(runs) - MATCHES):
        same = 0
        while same + lag < len(runs) and _alike(runs[-1 - same], runs[-1 - same - lag]):
            same += 1
        if same > MATCHES:
            due = runs[-1 - lag].looks - runs[-1].looks < HORIZON_LOOKS
            return runs[-lag].rate / runs[-1].rate if due else 1.0
    return 1.0


def _alike(a: Run, b: Run) -> bool:
    return abs(a.rate - b.rate) <= SAME * max(a.rate, b.rate)

"""The noise of every evaluation of a run, drawn ahead and by evaluation, so it is the same for every tuner."""

from __future__ import annotations

import numpy as np

from benchmarks.simulation.noise import Noise, Window
from benchmarks.simulation.truth import NOISE, WINDOWS, stream

BLOCK = 256
"""Evaluations drawn at once."""


class Draws:
    """Factors of a run's measurements.

    Args:
        seed: Seed of the run.
        noise: Noise of processing ability.
        units: Number of abilities measured per evaluation.
        windows: The window operators.
    """

    def __init__(self, seed: int, noise: Noise, units: int, windows: tuple[Window, ...]) -> None:
        self._noise, self._units, self._windows = noise, units, windows
        self._rngs = stream(seed, NOISE), stream(seed, WINDOWS)
        self._rows: list[tuple[list[float], list[float]]] = []

    def at(self, evaluation: int) -> tuple[list[float], list[float]]:
        """Return an evaluation's ratio of measured to true ability per unit, and counted to mean output per window."""
        while evaluation >= len(self._rows):
            abilities = self._noise.factors(self._rngs[0], (BLOCK, self._units)).tolist()
            columns = [window.factors(self._rngs[1], BLOCK) for window in self._windows]
            counted = np.stack(columns, axis=1).tolist() if columns else [[] for _ in range(BLOCK)]
            self._rows += zip(abilities, counted, strict=True)
        return self._rows[evaluation]

"""Smoothing parameters of Holt's model, fitted on history ([DRFM], Section 2.3: "selected by fitting historical data").

The grid is coarse on purpose: the error is flat around its minimum, and finer steps fit noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millrace.model.errors import MillraceError
from millrace.optimizers.drfm.forecasters import Forecaster, Holt
from millrace.optimizers.drfm.problem import Floats

GRID = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0)
SHORTEST = 3
"""Fewest periods of history that can be fitted."""


def forecast_error(forecaster: Forecaster, history: Floats, ahead: int = 1) -> float:
    """Return the mean squared error of the forecasts made period by period over a history.

    Args:
        forecaster: Any.
        history: Rates, shape (T, S), T > ``ahead``; NaN for missed rates, which are ignored.
        ahead: Periods ahead that are judged, >= 1.
    """
    state = forecaster.start(history[0])
    squares, count = 0.0, 0
    for t in range(len(history) - ahead):
        if t:
            state = forecaster.update(state, history[t])
        error = history[t + ahead] - forecaster.forecast(state, ahead)[-1]
        squares += float(np.nansum(error**2))
        count += int(np.isfinite(error).sum())
    return squares / max(count, 1)


def fit(history: Floats, ahead: int = 1, grid: Sequence[float] = GRID) -> Holt:
    """Return Holt's model with the parameters that would have forecast a history best.

    Args:
        history: Rates, shape (T, S), T >= 3, >= 0; NaN for missed rates.
        ahead: Periods ahead that count, >= 1.
        grid: Values to choose each parameter from; of equally good ones the first is used.

    Raises:
        MillraceError: If the history is too short.
    """
    if len(history) < max(SHORTEST, ahead + 1):
        raise MillraceError("history", len(history), f">= {max(SHORTEST, ahead + 1)} periods", "Fit later.")
    models = [Holt(alpha=alpha, gamma=gamma) for alpha in grid for gamma in grid]
    return min(models, key=lambda model: forecast_error(model, history, ahead))

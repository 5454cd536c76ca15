"""The state of input admission as a JSON value, kept between evaluations.

Its size is bounded by the streams of the last ``quiet`` periods times the periods of history that are kept. Rates are
counts per period, which makes most numbers whole and short. The keys must stay as in stored memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from millrace.model.admission import TAKEN_IN, LoadUnit
from millrace.model.decision import Memory
from millrace.optimizers.arrays import Floats
from millrace.optimizers.drfm.admission_state import Accuracy, AdmissionState
from millrace.optimizers.drfm.characteristics import Characteristics, columns, unknown
from millrace.optimizers.drfm.forecast_state import ForecastState
from millrace.optimizers.drfm.rate_forecaster import RateForecaster
from millrace.optimizers.drfm.trust import SOURCES

PER_STREAM = ("joined", "seen", "total", "error", "fallen", "trust", "learned_trust", "rate", "history")
"""Arrays of a :class:`ForecastState` that are stored by their names."""
LEARNED = "learned."
"""Prefix of the columns of learned characteristics."""
EXPECTED, MODEL = "expected", "state"


def write(state: AdmissionState, period_s: int, unit: LoadUnit = LoadUnit.ROWS) -> Memory:
    """Return the state as a JSON value.

    Args:
        state: The state to store.
        period_s: Length of a period, seconds.
        unit: Unit of the loads.
    """
    forecast, accuracy = state.forecast, state.accuracy
    stored = {
        **{name: getattr(forecast, name) for name in PER_STREAM},
        **{LEARNED + name: column for name, column in columns(forecast.learned).items()},
        EXPECTED: np.vstack([forecast.expected, forecast.expected_by]),
        MODEL: forecast.model,
    }
    return {
        **({} if unit is LoadUnit.ROWS else {"unit": unit.value}),
        "period_s": period_s,
        TAKEN_IN: datetime.fromtimestamp(state.next_period * period_s, UTC).isoformat(),
        "streams": list(state.streams),
        "node": state.node.tolist(),
        "seen": state.last_seen.tolist(),
        "foreseen": {
            "forecast": list(accuracy.forecast),
            "came": list(accuracy.actual),
            "off": list(accuracy.off),
        },
        "columns": {name: _to_lists(column) for name, column in stored.items()},
    }


def read(
    memory: Memory, period_s: int, forecaster: RateForecaster, unit: LoadUnit = LoadUnit.ROWS
) -> AdmissionState | None:
    """Return the stored state; None for an empty memory, another period length or unit, or an invalid value.

    If only the forecasts do not fit, for example because another forecaster made them, they start over.

    Args:
        memory: The JSON value.
        period_s: Present length of a period, seconds.
        forecaster: The forecaster that continues from it.
        unit: Present unit of the loads.
    """
    if memory.get("unit", LoadUnit.ROWS) != unit:
        return None
    try:
        names = memory["streams"]
        streams = tuple(names)
        next_period = round(datetime.fromisoformat(memory[TAKEN_IN]).timestamp() / memory["period_s"])
        stored = _to_columns(memory["columns"], len(streams))
        node, last_seen = (np.array(memory[name], dtype=np.intp) for name in ("node", "seen"))
        accuracy = _to_accuracy(memory["foreseen"])
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None
    distinct = isinstance(names, list) and all(isinstance(n, str) for n in names) and len(set(names)) == len(names)
    fits = node.shape == last_seen.shape == (len(streams),) and bool((node >= 0).all())
    if not (distinct and fits and isinstance(memory["period_s"], int) and memory["period_s"] == period_s):
        return None
    forecast = restore(forecaster, next_period - 1, streams, stored)
    if forecast is None:
        forecast, accuracy = forecaster.start(), Accuracy()
    return AdmissionState(next_period, streams, node, last_seen, forecast, accuracy)


def restore(
    forecaster: RateForecaster, now: int, streams: tuple[str, ...], stored: Mapping[str, Floats]
) -> ForecastState | None:
    """Return the stored forecast state; None if it does not fit. The metadata may have changed since.

    Args:
        forecaster: The forecaster that continues from it.
        now: Number of the newest period that was observed.
        streams: Their ids.
        stored: Columns by name.
    """
    count = len(streams)
    stored = {"fallen": np.zeros((SOURCES, count)), **stored}  # memories of version 0.2 do not have it
    names = (*PER_STREAM, *(LEARNED + name for name in columns(unknown(0))), EXPECTED, MODEL)
    if any(name not in stored or stored[name].shape[-1:] != (count,) for name in names):
        return None
    rows = {
        "error": SOURCES,
        "fallen": SOURCES,
        EXPECTED: 1 + SOURCES,
        MODEL: len(forecaster.forecaster.start(np.zeros(0))),
    }
    vectors = set(names) - {*rows, "history"}
    if any(stored[name].shape != (number, count) for name, number in rows.items()):
        return None
    if any(stored[name].ndim != 1 for name in vectors) or stored["history"].ndim != 2:
        return None
    state = replace(
        forecaster.start(),
        now=now,
        streams=streams,
        joined=stored["joined"],
        seen=stored["seen"],
        total=stored["total"],
        error=stored["error"],
        fallen=stored["fallen"],
        trust=stored["trust"],
        learned_trust=stored["learned_trust"],
        rate=stored["rate"],
        history=stored["history"],
        expected=stored[EXPECTED][0],
        expected_by=stored[EXPECTED][1:],
        model=stored[MODEL],
        learned=Characteristics(**{name: stored[LEARNED + name] for name in columns(unknown(0))}),
    )
    return forecaster.declare(state)


def _to_lists(column: Floats) -> Any:
    """Return an array as lists, whole numbers without a fraction, and None for unknown values."""
    if column.ndim > 1:
        return [_to_lists(row) for row in column]
    return [None if v != v else int(v) if v.is_integer() else v for v in column.tolist()]


def _to_columns(lists: Mapping[str, Any], streams: int) -> Mapping[str, Floats]:
    arrays = {name: np.array(values, dtype=np.float64) for name, values in lists.items()}
    # a matrix without rows is an empty list, whatever the number of its columns
    return {name: a.reshape(0, streams) if name == "history" and a.ndim == 1 else a for name, a in arrays.items()}


def _to_accuracy(lists: Mapping[str, Sequence[float]]) -> Accuracy:
    forecast, actual, off = (tuple(float(v) for v in lists[name]) for name in ("forecast", "came", "off"))
    if not len(forecast) == len(actual) == len(off):
        raise ValueError("columns of unequal length")
    return Accuracy(forecast, actual, off)

"""All checks as one frame with two expectations: Great Expectations is slow per expectation, not per row.

Each checked value is a row: the value with its limit (0 for a required value, which counts as -1 if it is missing), or
a number that only one row may have. If anything is refused, each frame is judged again to name its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from millrace.control.quality.expectations import Always, Between, Check, Required, Unique

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("larger", "smaller", "identity")


@dataclass(frozen=True)
class Part:
    """One frame and what must hold for it; ``key`` names its rows."""

    name: str
    frame: pd.DataFrame
    suite: Sequence[Check]
    key: tuple[str, ...]


def sound(parts: Sequence[Part]) -> bool:
    """Return whether every check of every part holds, as Great Expectations judges it."""
    import great_expectations as gx
    import great_expectations.expectations as gxe

    values = measures(parts)
    if values.empty:
        return True
    within: Mapping[str, Any] = {"or_equal": True, "ignore_row_if": "either_value_is_missing"}
    expected = [
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="larger", column_B="smaller", **within),
        gxe.ExpectColumnValuesToBeUnique(column="identity"),
    ]
    rows = _any_frame().get_batch({"dataframe": values})
    suite = gx.ExpectationSuite(name="measures", expectations=expected)
    return bool(rows.validate(suite, result_format={"result_format": "BOOLEAN_ONLY"}).success)


@cache
def _any_frame() -> Any:
    """Return a batch definition for frames; making it takes a quarter of the time of an evaluation's checks."""
    return frames_source().add_dataframe_asset("measures").add_batch_definition_whole_dataframe("values")


def measures(parts: Sequence[Part]) -> pd.DataFrame:
    """Return one row per checked value.

    Returns:
        Columns ``larger`` and ``smaller`` (a value and its limit, or NaN) and ``identity`` (NaN, or a number that rows
        with the same values share).
    """
    import numpy as np
    import pandas as pd

    columns_of: list[tuple[int, Mapping[str, Any]]] = []
    for part in parts:
        first = sum(length for length, _ in columns_of)  # no two checks share numbers
        columns_of += [(len(part.frame), columns) for columns in _columns(part, first)]
    whole = {
        name: np.concatenate([np.broadcast_to(c.get(name, np.nan), n) for n, c in columns_of] or [np.empty(0)])
        for name in COLUMNS
    }
    return pd.DataFrame(whole)


def _columns(part: Part, first: int) -> Iterator[Mapping[str, Any]]:
    import numpy as np

    for place, check in enumerate(part.suite):
        match check:
            case Required():
                yield {"larger": np.where(part.frame[check.columns[0]].isna(), -1.0, 0.0), "smaller": 0.0}
            case Between():
                yield from _within(part.frame[check.columns[0]], check.low, check.high)
            case Always():
                yield from _within(part.frame[check.columns[0]], float(check.truth), float(check.truth))
            case Unique():
                number = part.frame.groupby(list(check.columns), dropna=False, sort=False).ngroup()
                yield {"identity": number.to_numpy(dtype="float64") + first + place * len(part.frame)}
            case _:
                raise NotImplementedError(type(check).__name__)


def _within(column: pd.Series[Any], low: float | None, high: float | None) -> Iterator[Mapping[str, Any]]:
    values = column.to_numpy(dtype="float64")
    if low is not None:
        yield {"larger": values, "smaller": low}
    if high is not None:
        yield {"larger": high, "smaller": values}


def frames_source() -> Any:
    """Return a source of frames in a context that writes nothing."""
    import great_expectations as gx

    return without_bars(gx.get_context(mode="ephemeral")).data_sources.add_pandas("lake")


def without_bars(context: Any) -> Any:
    """Return a Great Expectations context that draws no progress bars into the logs."""
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    return context

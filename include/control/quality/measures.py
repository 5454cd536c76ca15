"""All that is checked as one frame with four expectations: Great Expectations is paid by the expectation, not the row.

Each value that a check is about is a row: the value, its limits, whether it is there where it must be, and a number
that only one row may have. Only what is refused here is judged again frame by frame, to name its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from include.control.quality.docs import without_bars
from include.control.quality.expectations import Always, Between, Check, Required, Unique

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("value", "low", "high", "given", "identity")


@dataclass(frozen=True)
class Part:
    """One frame and what must hold for it; ``key`` names its rows."""

    name: str
    frame: pd.DataFrame
    suite: Sequence[Check]
    key: tuple[str, ...]


def sound(parts: Sequence[Part]) -> bool:
    """Say whether every check of every part holds, as Great Expectations judges it."""
    import great_expectations as gx
    import great_expectations.expectations as gxe

    values = measures(parts)
    if values.empty:
        return True
    within: Mapping[str, Any] = {"or_equal": True, "ignore_row_if": "either_value_is_missing"}
    expected = [
        gxe.ExpectColumnValuesToNotBeNull(column="given"),
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="value", column_B="low", **within),
        gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="high", column_B="value", **within),
        gxe.ExpectColumnValuesToBeUnique(column="identity"),
    ]
    source = without_bars(gx.get_context(mode="ephemeral")).data_sources.add_pandas("lake")
    rows = source.add_dataframe_asset("measures").add_batch_definition_whole_dataframe("since the last look")
    suite = gx.ExpectationSuite(name="measures", expectations=expected)
    judged = rows.get_batch({"dataframe": values}).validate(suite, result_format={"result_format": "BOOLEAN_ONLY"})
    return bool(judged.success)


def measures(parts: Sequence[Part]) -> pd.DataFrame:
    """Return a row a value that is checked.

    Returns:
        Columns ``value``, ``low`` and ``high`` (NaN for no value and no limit), ``given`` (NaN where a value that is
        required is null) and ``identity`` (NaN, or a number that a row of the same values has too).
    """
    import numpy as np
    import pandas as pd

    found: list[tuple[int, Mapping[str, Any]]] = []
    for part in parts:
        first = sum(length for length, _ in found)  # numbers of one check's rows are no other's
        found += [(len(part.frame), columns) for columns in _columns(part, first)]
    whole = {
        name: np.concatenate([np.broadcast_to(c.get(name, _ELSE[name]), n) for n, c in found] or [np.empty(0)])
        for name in COLUMNS
    }
    return pd.DataFrame(whole)


_ELSE = {"value": float("nan"), "low": float("nan"), "high": float("nan"), "given": 1.0, "identity": float("nan")}


def _columns(part: Part, first: int) -> Iterator[Mapping[str, Any]]:
    import numpy as np

    for place, check in enumerate(part.suite):
        match check:
            case Required():
                yield {"given": np.where(part.frame[check.columns[0]].isna(), np.nan, 1.0)}
            case Between():
                limits = {"low": check.low, "high": check.high}
                told = {name: limit for name, limit in limits.items() if limit is not None}
                yield {"value": part.frame[check.columns[0]].to_numpy(dtype="float64"), **told}
            case Always():
                truth = part.frame[check.columns[0]].to_numpy(dtype="float64")
                yield {"value": truth, "low": float(check.truth), "high": float(check.truth)}
            case Unique():
                number = part.frame.groupby(list(check.columns), dropna=False, sort=False).ngroup()
                yield {"identity": number.to_numpy(dtype="float64") + first + place * len(part.frame)}
            case _:
                raise NotImplementedError(type(check).__name__)

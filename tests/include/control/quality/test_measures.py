from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from millrace.control.quality.expectations import (
    Always,
    Between,
    Check,
    Required,
    Unique,
    apps_suite,
    batches_suite,
    columns_suite,
    tables_suite,
)
from millrace.control.quality.measures import Part, sound
from millrace.model.spec_sections import Quality

CHECKS = [*tables_suite(Quality(), True), *columns_suite(), *batches_suite(Quality()), *apps_suite()]


def values(check: Check) -> tuple[Any, list[Any]]:
    """Return a value that a check accepts, and some that it rejects."""
    match check:
        case Required():
            return "there", [None]
        case Always():
            return check.truth, [not check.truth]
        case Between():
            below = [] if check.low is None else [check.low - 1e-9, float("-inf")]
            above = [] if check.high is None else [check.high + 1e-9]
            return check.low if check.low is not None else check.high, [*below, *above]
        case _:
            return 1.0, []


def part(check: Check, column: list[Any]) -> Part:
    return Part("part", pd.DataFrame({name: column for name in check.columns}), [check], ("row",))


@pytest.mark.parametrize("check", [c for c in CHECKS if not isinstance(c, Unique)], ids=lambda c: f"{c.columns[0]}")
def test_check_when_one_value_is_bad_then_all_rows_are_unsound(check: Check) -> None:
    good, bad = values(check)
    others = [part(c, [values(c)[0]] * 3) for c in CHECKS if not isinstance(c, Unique)]
    assert sound([*others, part(check, [good, good])])
    for value in bad:
        assert not sound([*others, part(check, [good, value, good])]), value


def test_unique_when_rows_repeat_then_is_unsound_and_parts_do_not_mix() -> None:
    (unique,) = (c for c in CHECKS if isinstance(c, Unique))
    assert sound([part(unique, [1.0, 2.0, None]), part(unique, [1.0, 2.0, None])])
    assert not sound([part(unique, [1.0, 2.0, 1.0])])
    assert not sound([part(unique, [None, 2.0, None])])


def test_between_when_a_value_is_missing_then_accepts_it() -> None:
    assert sound([part(Between("", ("x",), 0, 1), [None, 0.5, 1.0])])
    assert sound([])

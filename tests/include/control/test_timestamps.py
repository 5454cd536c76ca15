from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.control.timestamps import PATTERN, parse_timestamp
from millrace.model.errors import MillraceError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("90m", NOW - timedelta(minutes=90)),
        ("1d12h", NOW - timedelta(hours=36)),
        ("2h30m10s", NOW - timedelta(hours=2, minutes=30, seconds=10)),
        (" 0s ", NOW),
        ("2026-02-28", datetime(2026, 2, 28, tzinfo=UTC)),
        ("2026-02-28T09:30", datetime(2026, 2, 28, 9, 30, tzinfo=UTC)),
        ("2026-02-28 09:30:15+02:00", datetime(2026, 2, 28, 7, 30, 15, tzinfo=UTC)),
        ("2026-02-28T09:30:15Z", datetime(2026, 2, 28, 9, 30, 15, tzinfo=UTC)),
    ],
)
def test_moment_when_well_formed_then_is_that_time_and_matches_the_form(text: str, found: datetime) -> None:
    assert parse_timestamp(text, NOW, "since") == found
    assert re.search(PATTERN, text.strip())


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2h ago", "-2h", "1.5h", "h", "2026-13-01", "2026-02-28T25:00", "12"]
)
def test_moment_when_malformed_then_says_how_to_write_it(text: str) -> None:
    with pytest.raises(MillraceError, match="2026-03-01T12:00") as told:
        parse_timestamp(text, NOW, "--since")
    assert (told.value.key, told.value.value) == ("--since", text)


@given(st.text(max_size=20) | st.from_regex(r"\A\d{1,12}[dhms]\Z"))
def test_moment_of_any_input_is_a_time_or_an_error(text: str) -> None:
    try:
        assert parse_timestamp(text, NOW, "since").tzinfo is not None
    except MillraceError as told:
        assert told.allowed and told.remedy

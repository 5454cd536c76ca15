"""A driver's command line: user arguments arrive unchanged, and only drivers are recognised."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.errors import MillraceError
from millrace.run_folder.arguments import DriverArguments, parse, recognise

ARGUMENTS = DriverArguments("p", "a", 3, 2, 4, 0, Path("/run"), "/lake", 60.0, 120.0, 60.0, Path("/s.py"))
WORDS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))), max_size=6)


@given(WORDS)
def test_arguments_come_back_as_they_were_passed(words: list[str]) -> None:
    given_ = DriverArguments(**{**vars(ARGUMENTS), "args": tuple(words)})
    assert parse(given_.argv()) == given_
    assert recognise(["java", "-cp", "x", "/repo/jobs/run_script.py", *given_.argv()]) == given_


def test_arguments_from_a_release_without_batch_deadline_are_parsed() -> None:
    argv = ARGUMENTS.argv()
    at = argv.index("--batch-deadline")
    assert parse([*argv[:at], *argv[at + 2 :]]) == ARGUMENTS


def test_raised_limits_come_back_by_option() -> None:
    given_ = DriverArguments(**{**vars(ARGUMENTS), "batch_limits": "maxBytesPerTrigger=9,maxFilesPerTrigger=64"})
    assert parse(given_.argv()).raised_limits == {"maxBytesPerTrigger": 9, "maxFilesPerTrigger": 64}
    assert ARGUMENTS.raised_limits == {} and "--batch-limits" not in ARGUMENTS.argv()


def test_script_arguments_may_contain_bytes_that_are_not_text() -> None:
    odd = DriverArguments(**{**vars(ARGUMENTS), "args": (b"\xff".decode(errors="surrogateescape"),)})
    assert parse(odd.argv()) == odd


@given(WORDS)
def test_recognise_of_another_program_is_none(words: list[str]) -> None:
    assert recognise(["vim", "run_script.py", *(w for w in words if w != "--generation")]) is None
    assert recognise(words) is None or "run_script.py" in words


@pytest.mark.parametrize(
    "argv", [[], ["--pipeline", "p"], ARGUMENTS.argv()[:-2], [*ARGUMENTS.argv()[:-2], "--"], ["--slots", "x"]]
)
def test_parse_when_something_is_missing_then_says_so_in_one_line(argv: list[str]) -> None:
    with pytest.raises(MillraceError) as error:
        parse(argv)
    assert "run_script.py" in str(error.value)

"""The result of one check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from millrace.model.errors import MillraceError


class Level(StrEnum):
    """Severity: with a warning things still work, with a problem they do not."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        name: The checked item, in one or two words.
        level: Its severity.
        sentence: Its state.
        remedy: What to do; empty if all is well.
    """

    name: str
    level: Level
    sentence: str
    remedy: str = ""


def ok(name: str, sentence: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(name, Level.OK, sentence)


def warning(name: str, sentence: str, remedy: str) -> Finding:
    """Return a finding of something that still works."""
    return Finding(name, Level.WARNING, sentence, remedy)


def problem(name: str, sentence: str, remedy: str) -> Finding:
    """Return a finding of something that does not work."""
    return Finding(name, Level.PROBLEM, sentence, remedy)


def of_error(name: str, error: MillraceError) -> Finding:
    """Return an error as a problem."""
    return problem(name, str(error).removesuffix(error.remedy).rstrip(), error.remedy)


def checked(name: str, check: Callable[[], Finding]) -> Finding:
    """Return a check's finding; a check that fails to run is a problem too."""
    try:
        return check()
    except MillraceError as error:
        return of_error(name, error)
    except Exception as error:
        return problem(name, f"The check failed: {type(error).__name__}: {error}", "Fix this error first.")

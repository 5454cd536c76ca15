"""What one check found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from millrace.model.errors import MillraceError


class Level(StrEnum):
    """How bad it is: a warning works today, a problem does not."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        name: What was checked, in one or two words.
        level: How bad it is.
        sentence: How it is.
        remedy: What to do about it; empty where all is well.
    """

    name: str
    level: Level
    sentence: str
    remedy: str = ""


def ok(name: str, sentence: str) -> Finding:
    """Return what is well."""
    return Finding(name, Level.OK, sentence)


def warning(name: str, sentence: str, remedy: str) -> Finding:
    """Return what works today."""
    return Finding(name, Level.WARNING, sentence, remedy)


def problem(name: str, sentence: str, remedy: str) -> Finding:
    """Return what does not work."""
    return Finding(name, Level.PROBLEM, sentence, remedy)


def of_error(name: str, error: MillraceError) -> Finding:
    """Return an error as the problem that it tells of."""
    return problem(name, str(error).removesuffix(error.remedy).rstrip(), error.remedy)


def checked(name: str, check: Callable[[], Finding]) -> Finding:
    """Return what a check finds; one that cannot be made has found a problem too."""
    try:
        return check()
    except MillraceError as error:
        return of_error(name, error)
    except Exception as error:
        return problem(name, f"This could not be checked: {type(error).__name__}: {error}", "Fix that first.")

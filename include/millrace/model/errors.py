"""Errors and outcomes if something cannot continue."""

from __future__ import annotations


class MillraceError(Exception):
    """A problem that a person can fix: key, value, allowed range and remedy.

    Args:
        key: The wrong item, by a name that the person knows: a spec key, a table, a command's argument.
        value: Its value; never a secret.
        allowed: The allowed range or form, as text.
        remedy: The remedy, as one sentence.
    """

    def __init__(self, key: str, value: object, allowed: str, remedy: str) -> None:
        self.key, self.value, self.allowed, self.remedy = key, value, allowed, remedy
        super().__init__(f"{key}: got {value!r}; allowed: {allowed}. {remedy}")


def pydantic_reason(message: str) -> str:
    """Return what pydantic says of a value, without its lead."""
    return message.removeprefix("Value error, ").removeprefix("Input should be ")


class NotReady(Exception):  # noqa: N818 - an outcome, not an error: "try again later"
    """There is nothing to decide on yet; the evaluation ends quietly."""


class Conflict(Exception):  # noqa: N818 - an outcome: somebody else was first
    """Another writer made this version first; read and decide again."""


class Settled(Exception):  # noqa: N818 - an outcome: there is nothing left to do
    """A Decision has already ended, as a version or as a veto; nothing more will come of it."""

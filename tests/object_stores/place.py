"""A place for a lake in an object store that runs here."""

from __future__ import annotations

from dataclasses import dataclass

NAME = "millrace-test"
"""The bucket or container."""


@dataclass(frozen=True)
class Place:
    """A bucket.

    Attributes:
        lake: URI of a lake in it.
        environment: Variables that point clients to it.
        missing: URI of a lake in a bucket that does not exist.
    """

    lake: str
    environment: dict[str, str]
    missing: str

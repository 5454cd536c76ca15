"""A query that fails while its driver keeps running."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from millrace.model.failure import in_sentence


@dataclass(frozen=True)
class QueryFailure:
    """A query that failed while its driver kept running.

    Attributes:
        query: Its name, or its id if it has none.
        at: When it failed (UTC).
        error: The exception in one line.
    """

    query: str
    at: datetime
    error: str

    @property
    def sentence(self) -> str:
        """What happened, for a person."""
        return f"Query {self.query} failed at {self.at:%H:%M:%S} UTC and does not run: {in_sentence(self.error)}."

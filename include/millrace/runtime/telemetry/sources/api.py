"""The interface of sources: import everything that a source's class needs of Millrace from here.

A kind of source is a function, usually a class method ``of``. It takes a :class:`Source` and returns its
:class:`SourcePosition`, or None if the source is of another kind. :mod:`millrace.runtime.telemetry.sources.kinds` lists
the kinds, and ``docs/add_source.md`` shows a complete example.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from millrace.model.arrival import ArrivalBasis

__all__ = ["UNKNOWN", "ArrivalBasis", "Kind", "Position", "Progress", "Source", "SourcePosition"]


@dataclass(frozen=True)
class Position:
    """A query's position in one or all of its sources, in rows.

    Attributes:
        backlog: Committed and not yet read.
        end: Ever committed. It may start anywhere, but only grows: its growth is what arrives.
        read: Read by the batch.
        basis: How the position shows what arrives; None if it does not.
        lag: Rows waiting per partition (``topic/partition``); empty if the source has no partitions.
    """

    backlog: int | None = None
    end: int | None = None
    read: int | None = None
    basis: ArrivalBasis | None = None
    lag: Mapping[str, int] = field(default_factory=dict)


UNKNOWN = Position()

Progress = Mapping[str, Any]
"""A source's entry in a progress event, as Spark writes it: ``startOffset``, ``endOffset`` and ``latestOffset``, each
the offset's JSON value or None; ``numInputRows`` and ``metrics``. Any of them may be missing.
"""


@dataclass(frozen=True)
class Source:
    """A source of one query run, as Spark has it.

    Attributes:
        description: Its name in progress events.
        streams: Spark's own objects with this description, through Py4J; they hold the options. Usually one; none if
            the query is unknown.
        gateway: Py4J's gateway of the session; None if only the offsets of a batch are to be counted.
        limit: Maximum rows per batch: ``inf`` if unlimited, None if limited but not in rows, ``nan`` if unknown.
        interval_s: Minimum time between two expensive checks, seconds.
        kept: Counts of the query's sources that its next run in this driver continues. Keys start with the description.
        query: Spark's own query, ``StreamExecution``; None if it is unknown.
    """

    description: str
    streams: Sequence[Any] = ()
    gateway: Any = None
    limit: float | None = math.nan
    interval_s: float = 0.0
    kept: dict[Any, Any] = field(default_factory=dict)
    query: Any = None


class SourcePosition(ABC):
    """Follows the rows of one source over a query run.

    Return ``UNKNOWN`` for what cannot be counted, never a guess. An exception counts as ``UNKNOWN`` and is logged once.

    Attributes:
        reads_all_below_limit: Whether a batch below the source's limit shows that no rows wait. It matters only while
            the position is unknown.
    """

    reads_all_below_limit: ClassVar[bool] = True

    @abstractmethod
    def after(self, progress: Progress) -> Position:
        """Return the position after a batch.

        Args:
            progress: The source's entry in the batch's progress event.
        """

    @abstractmethod
    def at_rest(self, end: Any) -> Position:
        """Return the position now; the query has ended no batch since one that read up to ``end``.

        Called up to once per second, also while a batch runs.

        Args:
            end: Offset at which the newest batch ended, as its JSON value; None if unknown.
        """


Kind = Callable[[Source], SourcePosition | None]
"""Returns a source's position; None if the source is of another kind."""

"""Rules that all workers of a chain share: windows, protocol variant, forwarding condition, shared tasks.

Source-sharing tasks are several join predicates over one pair of streams, without a copy of the streams per task. If a
chain's windows are as wide as the widest task's, it passes each block on once and offers every pair that meets to all
tasks. A pair that only some tasks want costs one comparison. A copy of the streams would cost every message again.

Reference:
    [ESJ-C] "Reducing Serialization" (forwarding), "Eliminating Stream Duplication" (tasks).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from millrace.joins.mp2pf.link import Row
from millrace.model.errors import MillraceError

COPIES = ("one stream", "both streams", "no stream")
SIZES = ("acknowledged", "reported")


@dataclass(frozen=True)
class Rules:
    """Windows, and the variant of the protocol.

    Attributes:
        window_r: How much newer the partners of a tuple of R may be, event time, >= 0, finite.
        window_s: The same for a tuple of S.
        copies: Which arriving tuples may join with copies of unacknowledged blocks: those of ``one stream`` (R, with
            copies of S: every pair meets once), ``both streams`` or ``no stream`` (pairs that cross on a link meet
            twice, or never).
        sizes: How a worker knows its successor's workload: from the last ``acknowledged`` size plus the blocks in
            transit to it, or, as [ESJ-C] literally says, the size last ``reported`` by SIZE_CHG, which is sent only
            after copies were deleted.

    Raises:
        MillraceError: If a window is negative or infinite, or a variant is unknown.
    """

    window_r: float
    window_s: float
    copies: Literal["one stream", "both streams", "no stream"] = "one stream"
    sizes: Literal["acknowledged", "reported"] = "acknowledged"

    def __post_init__(self) -> None:
        for name in ("window_r", "window_s"):
            value = getattr(self, name)
            # with an infinite window, a flush could not show that a tuple is due
            if not 0 <= value < math.inf:
                raise MillraceError(name, value, "a finite number >= 0", "Set how far apart partners may be.")
        for name, words in (("copies", COPIES), ("sizes", SIZES)):
            if getattr(self, name) not in words:
                raise MillraceError(name, getattr(self, name), ", ".join(words), "Choose one of these.")

    @property
    def windows(self) -> tuple[float, float]:
        """How much newer partners may be, by stream."""
        return self.window_r, self.window_s

    @property
    def literal_sizes(self) -> bool:
        """Whether only SIZE_CHG reports sizes."""
        return self.sizes == "reported"

    def within(self, r: float, s: float) -> bool:
        """Return whether tuples of these times may be partners."""
        return s - r <= self.window_r and r - s <= self.window_s


def forwards(own: int, successor: int, block: int) -> bool:
    """Return whether a worker passes a block on: its workload exceeds its successor's by the block size.

    Args:
        own: Tuples of the stream at rest in the worker.
        successor: Tuples of the stream that the successor has or is about to get.
        block: Tuples per block, >= 1.

    Reference:
        [ESJ-C] "Reducing Serialization".
    """
    return own - successor >= block


def resting_place(sizes: Sequence[int], enters: Literal["left", "right"], block: int) -> int:
    """Return the worker where a whole block that enters a quiet chain comes to rest.

    Every worker passes a block on while the forwarding condition holds, counting the block as its own. If neighbours
    differ by at most one block before, they still do afterwards, whichever side the block enters from.

    Args:
        sizes: Workload of each worker from left to right, tuples, >= 0; shape (workers,).
        enters: The side that the block enters from.
        block: Tuples in the block, >= 1.

    Returns:
        Position in ``sizes``.

    Raises:
        MillraceError: If there is no worker, a size is negative or the block is empty.
    """
    if not sizes or min(sizes) < 0:
        raise MillraceError("sizes", list(sizes), "one number >= 0 a worker, at least one", "Give every worker's size.")
    if block < 1:
        raise MillraceError("block", block, "a whole number >= 1", "Set a block of at least one tuple.")
    course = range(len(sizes)) if enters == "left" else range(len(sizes) - 1, -1, -1)
    at = course[0]
    for following in course[1:]:
        if not forwards(sizes[at] + block, sizes[following], block):
            break
        at = following
    return at


@dataclass(frozen=True)
class Task:
    """A join predicate over R and S.

    Attributes:
        name: Its name.
        after: Smallest difference, time of the tuple of S minus time of the tuple of R, event time.
        before: Largest such difference.
        matches: Any other condition on the pair.

    Raises:
        MillraceError: If no time difference is allowed.
    """

    name: str
    after: float
    before: float
    matches: Callable[[Row, Row], bool]

    def __post_init__(self) -> None:
        if not self.after <= self.before:
            raise MillraceError("after", self.after, f"a number <= before ({self.before:g})", "Swap or widen the two.")

    def wants(self, r: Row, s: Row) -> bool:
        """Return whether a pair is a result."""
        return self.after <= s[0] - r[0] <= self.before and self.matches(r, s)


def shared_rules(tasks: Sequence[Task]) -> Rules:
    """Return the rules of a chain in which all pairs of all tasks meet.

    Raises:
        MillraceError: If there is no task.
    """
    if not tasks:
        raise MillraceError("tasks", [], "at least one", "Name what is to be joined.")
    return Rules(max(0, *(t.before for t in tasks)), max(0, *(-t.after for t in tasks)))


def results(tasks: Sequence[Task], met: Iterable[tuple[Any, Any]]) -> dict[str, list[tuple[Any, Any]]]:
    """Return the results by task name, in the order in which pairs met."""
    pairs: dict[str, list[tuple[Any, Any]]] = {task.name: [] for task in tasks}
    for r, s in met:
        for task in tasks:
            if task.wants(r, s):
                pairs[task.name].append((r, s))
    return pairs

"""Source-sharing tasks: many join predicates over one pair of streams that no task has a copy of.

A chain whose windows are as wide as the widest task's passes each block on once, and every pair that meets is put to
all tasks. A pair that only some tasks want costs a comparison; a copy of the streams costs every message again.

Reference:
    [ESJ-C] "Eliminating Stream Duplication".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from include.joins.mp2pf.messages import Row
from include.joins.mp2pf.rules import Rules
from include.model.errors import MillraceError


@dataclass(frozen=True)
class Task:
    """A join predicate over R and S.

    Attributes:
        name: Its name.
        after: Least time of the tuple of S less that of R, event time.
        before: The greatest.
        matches: What else must hold of the pair.

    Raises:
        MillraceError: If no distance in time is allowed.
    """

    name: str
    after: float
    before: float
    matches: Callable[[Row, Row], bool]

    def __post_init__(self) -> None:
        if not self.after <= self.before:
            raise MillraceError("after", self.after, f"a number <= before ({self.before:g})", "Swap or widen the two.")

    def wants(self, r: Row, s: Row) -> bool:
        """Say whether a pair is a result.

        Args:
            r: Tuple of R.
            s: Tuple of S.
        """
        return self.after <= s[0] - r[0] <= self.before and self.matches(r, s)


def shared_rules(tasks: Sequence[Task]) -> Rules:
    """Return the rules of a chain in which all pairs of all tasks meet.

    Args:
        tasks: At least one.

    Raises:
        MillraceError: If there is none.
    """
    if not tasks:
        raise MillraceError("tasks", [], "at least one", "Name what is to be joined.")
    return Rules(max(0, *(t.before for t in tasks)), max(0, *(-t.after for t in tasks)))


def results(tasks: Sequence[Task], met: Iterable[tuple[Any, Any]]) -> dict[str, list[tuple[Any, Any]]]:
    """Return the results of each task, by its name and in the order in which pairs met.

    Args:
        tasks: All that share the chain.
        met: Pairs (tuple of R, tuple of S) that met.
    """
    found: dict[str, list[tuple[Any, Any]]] = {task.name: [] for task in tasks}
    for r, s in met:
        for task in tasks:
            if task.wants(r, s):
                found[task.name].append((r, s))
    return found

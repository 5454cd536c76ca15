"""Parts of the bench that may fail: each failure becomes a record, and the other parts continue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from benchmarks.record import Record, at_most
from millrace.local.stack.progress import say, step

T = TypeVar("T")


@dataclass(frozen=True)
class Attempts:
    """Runs parts, each under its own name.

    Attributes:
        bench: The benchmark's name.
        failures: One record per failed part.
    """

    bench: str
    failures: list[Record] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    def attempt(self, scenario: str, method: str, work: Callable[[str], T]) -> T | None:
        """Return what a part measured, or None and add a record if it fails.

        Args:
            scenario: The scenario.
            method: The method.
            work: Does the measurement; takes a name for its folder.
        """
        try:
            with step(f"{scenario}, {method}"):
                return work(f"{next(self._numbers)}-{scenario}-{method}")
        except Exception as error:
            say(f"    {scenario}, {method} failed: {error}")
            target, holds = at_most(1, 0)
            self.failures.append(Record(self.bench, scenario, method, "failed", 1, "runs", target=target, holds=holds))
            return None

"""Parts of a benchmark that may fail, or be measured another time.

A failure becomes a record, and the other parts continue. A part that has been measured before is not measured again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

from benchmarks.record import Record, at_most
from millrace.local.stack.progress import say, step
from millrace.model.codec import from_json, to_json

T = TypeVar("T")


@dataclass(frozen=True)
class Attempts:
    """Runs parts, each under its own name.

    Attributes:
        bench: The benchmark's name.
        resume: Folder with the results of parts that have been measured before; None to measure all.
        failures: One record per failed part.
    """

    bench: str
    resume: Path | None = None
    failures: list[Record] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    def attempt(self, scenario: str, method: str, work: Callable[[str], T], kind: type[T] | None = None) -> T | None:
        """Return what a part measured, now or before, or None and add a record if it fails.

        Args:
            scenario: The scenario.
            method: The method.
            work: Does the measurement; takes a name for its folder.
            kind: Class of the result; None if it cannot be stored.
        """
        name = f"{next(self._numbers)}-{scenario}-{method}"
        if self.resume is None or kind is None:
            return self._measured(scenario, method, partial(work, name))
        stored = self.resume / f"{self.bench}-{scenario}-{method}.json"
        if stored.exists():
            say(f"  - {scenario}, {method}: measured before, {stored}")
            return from_json(kind, stored.read_text())
        found = self._measured(scenario, method, partial(work, name))
        if found is not None:
            self.resume.mkdir(parents=True, exist_ok=True)
            stored.write_text(to_json(found))
        return found

    def _measured(self, scenario: str, method: str, work: Callable[[], T]) -> T | None:
        try:
            with step(f"{scenario}, {method}"):
                return work()
        except Exception as error:
            say(f"    {scenario}, {method} failed: {error}")
            target, holds = at_most(1, 0)
            self.failures.append(Record(self.bench, scenario, method, "failed", 1, "runs", target=target, holds=holds))
            return None

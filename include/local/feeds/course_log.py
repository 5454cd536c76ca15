"""The courses that a feed has taken, on disk before the first row of their tick is committed.

A feed that was killed commits a tick again where it is missing; a row must then go where the first attempt would have
put it, or it would come twice or not at all.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout

from include.local.feeds.course import Course
from include.model.codec import from_json, to_json
from include.model.errors import MillraceError


class CourseLog:
    """One course a line, appended and synced; held by one feed at a time.

    Args:
        path: The file; its folder is made.
        now: When the first tick begins, if the log is new (UTC).

    Raises:
        MillraceError: If another feed holds it, or it cannot be read or written.
    """

    def __init__(self, path: Path, now: datetime) -> None:
        self._lock = FileLock(path.with_name(f".{path.name}.lock"))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            whole = path.read_bytes().rpartition(b"\n")[0].decode() if path.exists() else ""
            self._file = path.open("ab")
            self._file.truncate(len(whole.encode()) + 1 if whole else 0)  # a line that a kill cut was never acted upon
        except Timeout:
            remedy = "Stop the other feed, or name another log."
            raise MillraceError("course log", str(path), "a log that no other feed holds", remedy) from None
        except OSError as error:
            raise MillraceError("course log", str(path), "a writable file", f"Mend it ({error}).") from error
        begun, *lines = whole.splitlines() or [""]
        self.courses = [from_json(Course, line) for line in lines]
        if begun:
            self.begun = datetime.fromisoformat(json.loads(begun)["begun"])
        else:
            self.begun = now
            self._write(json.dumps({"begun": now.isoformat()}))

    def at(self, tick: int) -> Course:
        """Return the course that holds in a tick, as far as the log goes."""
        found = bisect_right([c.tick for c in self.courses], tick)
        if not found:
            return Course(-1)
        course = self.courses[found - 1]
        return course if course.tick == tick else course.at(tick)

    @property
    def last(self) -> int:
        """Newest tick in the log, -1 before the first."""
        return self.courses[-1].tick if self.courses else -1

    def add(self, course: Course) -> None:
        """Write a course down; one that only goes on as before needs no line.

        Raises:
            MillraceError: If it cannot be written.
        """
        before = self.courses[-1] if self.courses else Course(-1)
        if course.resumed or before.resumed or (course.entry, course.waiting) != (before.entry, before.waiting):
            self.courses.append(course)
            self._write(to_json(course))

    def _write(self, line: str) -> None:
        try:
            self._file.write(f"{line}\n".encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise MillraceError("course log", self._file.name, "a writable file with free space", str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._lock.release()

"""An app's failures, by content and kept on disk: when to try again, and when to stop trying (circuit breaker)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from millrace.atomic_file import read_if_there, write_atomically
from millrace.model.codec import from_json, to_json, to_plain
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.failure import restart_cures
from millrace.run_folder.driver_records import KEPT_GENERATIONS

FILE = "trouble.json"
AUTHOR = "reconciler"
FAILURES_TO_OPEN = 2
FIRST_DELAY_S = 10.0
LONGEST_DELAY_S = 300.0
HALF_OPEN_DELAYS_S = (60.0, 300.0, 900.0, 3600.0)
"""Delays between tries while the circuit is open; the last one repeats. Most unavailable sources recover soon."""
MOST_RESTARTS = 5
"""Restarts in a row that queries may ask for without a batch in between; one more counts as a failure."""
STEADY_S = 300.0
"""A driver that served this long was healthy: its later problems do not come from its start."""
KEPT_CONTENTS = 20


@dataclass(frozen=True)
class ContentFailures:
    """What went wrong with one content since it was last steady.

    Attributes:
        failures: Starts or batches that failed because of the content.
        deaths: Ready drivers that were killed from outside.
        version: The Deployment version of the last of them.
        last: Time of the last of them (UTC).
        error: Reason of the last failure, in one line.
        restarts: Restarts that its queries have asked for since they last committed a batch.
        asked: Whether the last failure only asked for a restart, for example after a source's schema changed.
    """

    failures: int
    deaths: int
    version: int
    last: datetime
    error: str | None = None
    restarts: int = 0
    asked: bool = False

    @property
    def open(self) -> bool:
        """Whether the circuit is open: starts are tried only occasionally, until one of them becomes steady."""
        return self.failures >= FAILURES_TO_OPEN and not self.asked

    @property
    def delay_s(self) -> float:
        """Seconds to wait after the last failure or death; none after a first death or a request for a restart."""
        if self.asked:
            return 0.0
        if self.open:
            return HALF_OPEN_DELAYS_S[min(self.failures - FAILURES_TO_OPEN, len(HALF_OPEN_DELAYS_S) - 1)]
        steps = self.failures + max(0, self.deaths - 1)
        return 0.0 if steps == 0 else min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** min(steps - 1, 16))


@dataclass(frozen=True)
class FailureHistory:
    """An app's failures by content, and the generations whose end has been accounted for.

    Attributes:
        settled: Generations whose end is accounted for: they were stopped on request, or are counted below.
        contents: Failures by the content's fingerprint.
    """

    settled: tuple[int, ...] = ()
    contents: Mapping[str, ContentFailures] = field(default_factory=dict)

    def settle(self, *generations: int) -> FailureHistory:
        """Return the history after accounting for the end of some generations."""
        return replace(self, settled=tuple(sorted({*self.settled, *generations})[-KEPT_GENERATIONS * 2 :]))

    def failed(
        self, content: str, version: int, error: str, now: datetime, *, progressed: bool = False
    ) -> FailureHistory:
        """Return the history after a failure caused by the content.

        Args:
            content: The content's fingerprint.
            version: The Deployment version.
            error: Why it failed, in one line. Errors that a restart fixes do not count as failures.
            now: When it failed (UTC).
            progressed: Whether the driver had committed a batch.
        """
        old = self.contents.get(content, ContentFailures(0, 0, version, now))
        restarts = 0 if progressed else old.restarts
        asked = restart_cures(error) and restarts < MOST_RESTARTS
        failed = replace(old, version=version, last=now, error=error, restarts=restarts + asked, asked=asked)
        return self._with(content, failed if asked else replace(failed, failures=old.failures + 1))

    def died(self, content: str, version: int, now: datetime) -> FailureHistory:
        """Return the history after a ready driver was killed from outside."""
        old = self.contents.get(content, ContentFailures(0, 0, version, now))
        return self._with(content, replace(old, deaths=old.deaths + 1, version=version, last=now, asked=False))

    def steady(self, content: str) -> FailureHistory:
        """Return the history after a content has run long enough to be trusted again."""
        return replace(self, contents={k: v for k, v in self.contents.items() if k != content})

    def forgive_others(self, content: str) -> FailureHistory:
        """Return the history without the failures of all other contents: this content fails as they did."""
        return replace(self, contents={k: v for k, v in self.contents.items() if k == content})

    def wait_s(self, content: str, deployment: Deployment, now: datetime, *, elsewhere: bool = False) -> float:
        """Return how long a content must wait before it may be started, seconds; 0 for now.

        A version that a person or a decision made after the last failure is tried at once, unless it changes only other
        apps (``elsewhere``). If the circuit is open, one more failure blocks it again. If the clock was set back to
        before that failure, there is no wait.
        """
        failures = self.contents.get(content)
        asked = failures is not None and deployment.version > failures.version and deployment.author != AUTHOR
        if failures is None or (asked and not elsewhere):
            return 0.0
        since_s = (now - failures.last).total_seconds()
        return 0.0 if since_s < 0 else max(0.0, failures.delay_s - since_s)

    def _with(self, content: str, failures: ContentFailures) -> FailureHistory:
        newest = sorted({**self.contents, content: failures}.items(), key=lambda item: item[1].last)[-KEPT_CONTENTS:]
        return replace(self, contents=dict(newest))


def fingerprint(app: AppDeployment) -> str:
    """Return a hash that two contents share if one driver can run both, whatever version they are part of."""
    content = to_plain(app.restart_content)
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def load(folder: Path) -> FailureHistory:
    """Return an app's history; a lost or damaged file means that nothing has failed.

    Raises:
        MillraceError: If the file cannot be read: failures would be counted again.
    """
    text = read_if_there(folder / FILE, key="run folder")
    try:
        return FailureHistory() if text is None else from_json(FailureHistory, text)
    except ValueError:
        return FailureHistory()


def save(folder: Path, history: FailureHistory) -> None:
    """Replace an app's history atomically."""
    write_atomically(folder / FILE, to_json(history), key="run folder", sync_folder=True)

"""The true history between two events, from which figures and pictures are made."""

from __future__ import annotations

from typing import NamedTuple


class Segment(NamedTuple):
    """A stretch of time in which nothing changes and waiting rows rise or fall linearly.

    Attributes:
        since: Start, seconds.
        until: End, seconds.
        down: True while a reconfiguration keeps the job from working.
        parallelism: p of each unit that can be sized.
        reference: The smallest sufficient p of each unit at this moment: the oracle's.
        rates: Arrival rate of each source, rows per second.
        before: Rows not yet processed, by source, at the start.
        after: The same at the end, including those of a batch that ends at this moment.
        pace: Rows per second that this configuration processes while rows wait.
        short: True if more arrives than this configuration can process, backlog aside.
        adequate: True if the true abilities are at least what these rates need, as far as any p can provide it.
        batch_rows: Of the rows not yet processed, those in the running batch; 0 without batches.
        batch_s: Duration of the running batch; 0 without batches.
        allowed_s: Seconds of arrivals in flight in normal operation; 0 without batches.
    """

    since: float
    until: float
    down: bool
    parallelism: tuple[int, ...]
    reference: tuple[int, ...]
    rates: tuple[float, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    pace: float
    short: bool
    adequate: bool
    batch_rows: float = 0.0
    batch_s: float = 0.0
    allowed_s: float = 0.0


class Judgement(NamedTuple):
    """The truth about a configuration at given rates, as recorded in a Segment."""

    pace: float
    short: bool
    adequate: bool
    minimum: tuple[int, ...]


def extend(segments: list[Segment], new: Segment) -> None:
    """Append a segment, or lengthen the last one if only time has passed."""
    if segments:
        last = segments[-1]
        # all fields but the times: equal backlogs at both ends mean that the number of waiting rows is constant
        if last[2:] == new[2:] and last.after == new.before == new.after and last.until == new.since:
            segments[-1] = new._replace(since=last.since)
            return
    segments.append(new)

"""What goes into a look, and what its first step hands to its second."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from include.control.quality.result import GateResult
from include.model.protocols import Cursor
from include.model.signals import Signals


@dataclass(frozen=True)
class Request:
    """What a person asked of a look; nothing by default.

    Attributes:
        forced_slots: Slots that the app shall have, whatever the optimizers think and whatever the mode.
        dry_run: True to decide and log without changing anything, the next look's memory and cursor included.
        requested_by: Who asked.
    """

    forced_slots: int | None = None
    dry_run: bool = False
    requested_by: str | None = None


@dataclass(frozen=True)
class Observed:
    """What the first step of a look found; a JSON value for the codec, so that it travels between tasks.

    Attributes:
        pipeline: Name of the pipeline.
        signals: What was measured; None if the look did not get that far.
        gate: What the quality gate said.
        since: Where the look began to read.
        problem: Why nothing can be decided, for a person; None if something can.
        reason_code: The same, machine-readable.
        time: When the look was taken (UTC).
        until: Where the next look goes on.
        note: What a person must know besides what is decided; empty if nothing.
    """

    pipeline: str
    signals: Signals | None
    gate: GateResult
    since: Cursor
    problem: str | None = None
    reason_code: str = ""
    time: datetime | None = None
    until: Cursor | None = None
    note: str = ""

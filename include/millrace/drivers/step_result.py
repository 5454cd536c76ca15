"""What one step of an app's reconciliation did."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.model.decision import Reconfiguration


@dataclass(frozen=True)
class StepResult:
    """What one step did, and whether another one is due at once."""

    changes: tuple[Reconfiguration, ...] = ()
    again: bool = False


DONE = StepResult()

"""What an optimizer and a plant must offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from millrace.model.decision import Decision, Memory, Proposal, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec


@dataclass(frozen=True)
class Cursor:
    """Where the last evaluation stopped reading.

    Attributes:
        telemetry_version: Version of ``telemetry/batches``; -1 for nothing yet.
        until: Its time (UTC).
        table_id: Id of the table that the version is one of; None if it was not noted.
    """

    telemetry_version: int = -1
    until: datetime | None = None
    table_id: str | None = None


class Optimizer(Protocol):
    """A pure decision: numbers in, a Proposal out. No clock, no files, no Spark."""

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Return what to change and why, and what to remember until the next evaluation."""
        ...


@runtime_checkable
class HasModel(Protocol):
    """An optimizer whose decisions rest on a fitted model that is worth keeping."""

    def model(self, training: Mapping[str, tuple[float, ...]]) -> Any:
        """Return the scikit-learn estimator fitted on a Proposal's ``training``, as the decision used it."""
        ...


class Plant(Protocol):
    """Anything that can be observed and reconfigured: Spark, a simulation, or recorded telemetry."""

    def observe(self, since: Cursor) -> Signals:
        """Return what one period measured.

        Raises:
            NotReady: Quietly, if nothing new was measured.
        """
        ...

    def apply(self, target: Deployment) -> tuple[Reconfiguration, ...]:
        """Make the plant run ``target`` and return what happened, one entry for each app that differed."""
        ...


class Tracker(Protocol):
    """Where changes are logged. It never fails an evaluation: what it cannot log it leaves out."""

    def log_change(self, spec: PipelineSpec, decision: Decision) -> tuple[str | None, Mapping[str, str]]:
        """Log a change; return the id of its run and the models used, name: version."""
        ...

    def log_achieved(self, run_id: str | None, achieved: Mapping[str, float]) -> bool:
        """Add to a change's run what it achieved; return False if that was not logged."""
        ...

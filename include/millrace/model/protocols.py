"""The interfaces of optimizers, plants and trackers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from millrace.model.decision import Decision, Memory, Proposal, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.placement import PotentialPlacement
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec


@dataclass(frozen=True)
class Cursor:
    """Position at which the last evaluation stopped reading.

    Attributes:
        telemetry_version: Version of ``telemetry/batches``; -1 for nothing yet.
        until: Its time (UTC).
        table_id: Id of the version's table; None if it was not noted.
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
    """An optimizer whose decisions are based on a fitted model that is worth keeping."""

    def model(self, training: Mapping[str, tuple[float, ...]]) -> Any:
        """Return the scikit-learn estimator fitted on a Proposal's ``training``, as the decision used it."""
        ...


@runtime_checkable
class ForeseesPlacement(Protocol):
    """An optimizer that can say what placement alone would change, before anyone decides on slots."""

    def potential(self, signals: Signals, current: Deployment, memory: Memory) -> PotentialPlacement | None:
        """Return it for the present slots; None if the tuner should decide without it."""
        ...


class Plant(Protocol):
    """Anything that can be observed and reconfigured: Spark, a simulation, or recorded telemetry."""

    def observe(self, since: Cursor) -> Signals:
        """Return the signals of one period.

        Raises:
            NotReady: Quietly, if nothing new was measured.
        """
        ...

    def apply(self, target: Deployment) -> tuple[Reconfiguration, ...]:
        """Make the plant run ``target`` and return what happened, one entry per app that differed."""
        ...


class Tracker(Protocol):
    """Logs changes. It never fails an evaluation: it leaves out what it cannot log."""

    def log_change(self, spec: PipelineSpec, decision: Decision) -> tuple[str | None, Mapping[str, str]]:
        """Log a change; return the id of its run and the models used, name: version."""
        ...

    def log_achieved(self, run_id: str | None, achieved: Mapping[str, float]) -> bool:
        """Add to a change's run what it achieved; return False if that was not logged."""
        ...

"""Alerts: pipeline events that are sent to a person."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class AlertKind(StrEnum):
    """What happened."""

    APPROVAL = "approval"
    REJECTED = "rejected"
    ROLLED_BACK = "rolled_back"
    CIRCUIT_OPEN = "circuit_open"
    HOLDS = "holds"
    QUERY_FAILED = "query_failed"
    RESTART_NEEDED = "restart_needed"
    NOT_RUNNING = "not_running"
    RUNNING = "running"


@dataclass(frozen=True)
class Alert:
    """An event of a pipeline (a row of ``control/alerts``).

    Attributes:
        pipeline: Name of the pipeline.
        time: When it was noticed (UTC).
        kind: Kind of the event.
        subject: The thing it happened to, such as a Decision's id. Each kind and subject is reported once.
        sentence: The event and its cause.
    """

    pipeline: str
    time: datetime
    kind: AlertKind
    subject: str
    sentence: str

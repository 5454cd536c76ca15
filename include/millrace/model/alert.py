"""What a person is told of without looking."""

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
    NOT_RUNNING = "not_running"
    RUNNING = "running"


@dataclass(frozen=True)
class Alert:
    """Something that happened to a pipeline (a row of ``control/alerts``).

    Attributes:
        pipeline: Name of the pipeline.
        time: When it was noticed (UTC).
        kind: What happened.
        subject: What it happened to, such as a Decision's id: of a kind and subject a person is told once.
        sentence: What happened, and why.
    """

    pipeline: str
    time: datetime
    kind: AlertKind
    subject: str
    sentence: str

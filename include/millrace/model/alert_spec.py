"""Whom a pipeline alerts, as a user writes it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from millrace.model.alert import AlertKind
from millrace.model.spec_base import Strict


class AlertChannel(Strict):
    """One of Airflow's notifiers, of any provider, and what it is to tell."""

    notifier: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")] = Field(
        description="Class of the notifier, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier"
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Its arguments; in those that it takes as templates, {{ alert.sentence }}, {{ alert.pipeline }}, "
        "{{ alert.kind }} and {{ alert.url }} are replaced. Secrets belong in the Airflow connection that it names",
    )
    events: tuple[AlertKind, ...] = Field(tuple(AlertKind), description="What is told; everything by default")

"""The section ``alerts`` of a pipeline spec: who is alerted, and of which events."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from millrace.model.alert import AlertKind
from millrace.model.spec_base import Strict


class AlertChannel(Strict):
    """An Airflow notifier of any provider, and the events that it reports."""

    notifier: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")] = Field(
        description="Notifier class, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier"
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Arguments of the notifier. Templated ones may use {{ alert.sentence }}, {{ alert.pipeline }}, "
        "{{ alert.kind }} and {{ alert.url }}. Keep secrets in the Airflow connection that it names",
    )
    events: tuple[AlertKind, ...] = Field(tuple(AlertKind), description="Events to report; all by default")

"""Send alerts through Airflow's notifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from airflow.sdk.configuration import conf

from millrace.model.alert import Alert, AlertKind
from millrace.model.alert_spec import AlertChannel
from millrace.model.errors import MillraceError


def send(channels: Sequence[AlertChannel], alerts: Sequence[Alert], context: Mapping[str, Any]) -> None:
    """Send alerts to each channel that wants their kind; a notifier that cannot deliver logs that in the task's log.

    Args:
        channels: The pipeline's alert channels.
        alerts: The alerts.
        context: The task's context, for templates.

    Raises:
        MillraceError: If a notifier does not exist, cannot be created, or has a wrong template; the other channels get
            their alerts first.
    """
    problems = []
    for channel in channels:
        wanted = [alert for alert in alerts if alert.kind in channel.events]
        try:
            _notifier(channel)  # report a broken channel before it is needed
            for alert in wanted:
                _deliver(channel, alert, context)
        except MillraceError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]


def url(alert: Alert) -> str:
    """Return the address of the page of the alert's pipeline, or of the pending approval."""
    base = conf.get("api", "base_url", fallback="").rstrip("/")
    if alert.kind is AlertKind.APPROVAL:
        return f"{base}/dags/approve_{alert.pipeline}/runs/{alert.subject}"
    return f"{base}/millrace/?pipeline={alert.pipeline}"


def _deliver(channel: AlertChannel, alert: Alert, context: Mapping[str, Any]) -> None:
    notifier = _notifier(channel)
    try:
        notifier({**context, "alert": {**asdict(alert), "url": url(alert)}})
    except Exception as error:  # Airflow's notifiers log failed deliveries, but not failed templates
        allowed, remedy = (
            "options that can be rendered",
            f"{type(error).__name__}: {error}. Correct alerts in the spec.",
        )
        raise MillraceError("alerts.options", channel.notifier, allowed, remedy) from error


def _notifier(channel: AlertChannel) -> Any:
    """Return a new notifier; a notifier renders its templates only once."""
    from airflow.sdk import BaseNotifier
    from airflow.sdk.module_loading import import_string

    try:
        notifier = import_string(channel.notifier)(**channel.options)
    except Exception as error:
        remedy = f"{type(error).__name__}: {error}. Install its provider, or correct alerts in the spec."
        raise MillraceError("alerts.notifier", channel.notifier, "a notifier that can be created", remedy) from error
    if not isinstance(notifier, BaseNotifier):
        remedy = "Name a class from airflow.providers.*.notifications, or your own class."
        raise MillraceError("alerts.notifier", channel.notifier, "a subclass of Airflow's BaseNotifier", remedy)
    return notifier

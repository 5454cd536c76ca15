"""Tells people what happened, through Airflow's notifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from airflow.sdk.configuration import conf

from millrace.model.alert import Alert, AlertKind
from millrace.model.alert_spec import AlertChannel
from millrace.model.errors import MillraceError


def send(channels: Sequence[AlertChannel], alerts: Sequence[Alert], context: Mapping[str, Any]) -> None:
    """Tell alerts through each channel that wants their kind; a notifier that fails says so in the task's log.

    Args:
        channels: Whom a pipeline alerts.
        alerts: What happened.
        context: The task's context, for templates.

    Raises:
        MillraceError: If a notifier does not exist or cannot be made; the other channels are told first.
    """
    problems = []
    for channel in channels:
        wanted = [alert for alert in alerts if alert.kind in channel.events]
        try:
            _notifier(channel)  # a channel that cannot work is said before it is needed
        except MillraceError as problem:
            problems.append(problem)
            continue
        for alert in wanted:
            _notifier(channel)({**context, "alert": {**asdict(alert), "url": url(alert)}})
    if problems:
        raise problems[0]


def url(alert: Alert) -> str:
    """Return the page on which an alert's pipeline, or what waits for a person, is seen."""
    base = conf.get("api", "base_url", fallback="").rstrip("/")
    if alert.kind is AlertKind.APPROVAL:
        return f"{base}/dags/approve_{alert.pipeline}/runs/{alert.subject}"
    return f"{base}/millrace/?pipeline={alert.pipeline}"


def _notifier(channel: AlertChannel) -> Any:
    """Return a new notifier: one renders its templates once."""
    from airflow.sdk import BaseNotifier
    from airflow.sdk.module_loading import import_string

    try:
        notifier = import_string(channel.notifier)(**channel.options)
    except Exception as error:
        remedy = f"{type(error).__name__}: {error}. Install its provider, or correct alerts in the spec."
        raise MillraceError("alerts.notifier", channel.notifier, "a notifier that can be made", remedy) from error
    if not isinstance(notifier, BaseNotifier):
        remedy = "Name a class of airflow.providers.*.notifications, or one of your own."
        raise MillraceError("alerts.notifier", channel.notifier, "a subclass of Airflow's BaseNotifier", remedy)
    return notifier

"""Asks the stack's services how they are."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime

TIMEOUT_S = 5.0

Health = Callable[[float], bool]
"""Tells whether a service that was started at a time (Unix seconds) is healthy now."""

# a proxy of the environment has no business between two processes of this machine
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url: str) -> bytes | None:
    """Fetch a page of this machine.

    Args:
        url: An http address.

    Returns:
        The body of a 200 answer, None for anything else.
    """
    try:
        with _direct.open(url, timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read()
            return body if answer.status == 200 else None
    except (OSError, urllib.error.HTTPError, ValueError):
        return None


def answers(url: str) -> Health:
    """Make a check that a page answers with 200.

    Args:
        url: The page.
    """
    return lambda _started: get(url) is not None


def heartbeat(url: str, component: str) -> Health:
    """Make a check that an Airflow component reports health and has done so in its present life.

    Args:
        url: Airflow's monitor page.
        component: Its name there: ``scheduler``, ``dag_processor`` or ``triggerer``.
    """

    def healthy(started: float) -> bool:
        body = get(url)
        told = (json.loads(body) if body else {}).get(component) or {}
        last = told.get(f"latest_{component}_heartbeat")
        if told.get("status") != "healthy" or not last:
            return False
        # right after a restart the last life's heartbeat still counts as healthy
        return datetime.fromisoformat(last).replace(tzinfo=UTC).timestamp() >= started

    return healthy

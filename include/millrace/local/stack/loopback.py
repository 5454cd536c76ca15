"""Loopback: a free port for every service, and how a service on one is asked for its health."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime

HOST = "127.0.0.1"
USUAL = {"airflow": 8080, "execution": 8081, "mlflow": 5000, "spark": 7077, "spark_master": 8082, "spark_worker": 8083}


def is_free(port: int) -> bool:
    """Whether nothing listens on a port that a client of 127.0.0.1 would reach."""
    with socket.socket() as probe:
        # a listener on the loopback address; binding alone would also fail on one that is only closing
        probe.settimeout(0.5)
        if probe.connect_ex((HOST, port)) == 0:
            return False
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def any_free() -> int:
    """Ask the kernel for a free port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def choose(usual: dict[str, int] | None = None) -> dict[str, int]:
    """Choose a port for every service that listens.

    Args:
        usual: Preferred port of each; the well-known ones by default.

    Returns:
        A port for each name, all different.
    """
    chosen: dict[str, int] = {}
    for name, port in (usual or USUAL).items():
        while port in chosen.values() or not is_free(port):
            port = any_free()
        chosen[name] = port
    return chosen


TIMEOUT_S = 5.0

Health = Callable[[float], bool]
"""Tells whether a service that was started at a time (Unix seconds) is healthy now."""

# a proxy of the environment has no business between two processes of this machine
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url: str, token: str | None = None) -> bytes | None:
    """Fetch a page of this machine, with a bearer token where it asks for one.

    Returns:
        The body of a 200 answer, None for anything else.
    """
    try:
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310 - loopback
        with _direct.open(request, timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read()
            return body if answer.status == 200 else None
    except (OSError, urllib.error.HTTPError, ValueError):
        return None


def answers(url: str, token: str | None = None) -> Health:
    """Make a check that a page answers with 200."""
    return lambda _started: get(url, token) is not None


def heartbeat(url: str, component: str) -> Health:
    """Make a check that an Airflow component reports health and has done so in its present life.

    Args:
        url: Airflow's monitor page.
        component: Its name there: ``scheduler``, ``dag_processor`` or ``triggerer``.
    """

    def healthy(started: float) -> bool:
        body = get(url)
        state = (json.loads(body) if body else {}).get(component) or {}
        last = state.get(f"latest_{component}_heartbeat")
        if state.get("status") != "healthy" or not last:
            return False
        # right after a restart the last life's heartbeat still counts as healthy
        return datetime.fromisoformat(last).replace(tzinfo=UTC).timestamp() >= started

    return healthy

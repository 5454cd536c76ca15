"""Loopback: find a free port for every service, and check a service's health."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

HOST = "127.0.0.1"
USUAL = {"airflow": 8080, "execution": 8081, "mlflow": 5000, "spark": 7077, "spark_master": 8082, "spark_worker": 8083}


def is_free(port: int) -> bool:
    """Return whether no process listens on a port that a client of 127.0.0.1 would reach."""
    with socket.socket() as probe:
        # look for a listener first: binding alone would also fail on a port that is only closing
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
    """Return a free port from the kernel."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def choose(usual: dict[str, int] | None = None) -> dict[str, int]:
    """Choose a port for every service that listens.

    Args:
        usual: Preferred port per service; the well-known ones by default.

    Returns:
        A port for each name, all different.
    """
    chosen: dict[str, int] = {}
    for name, port in (usual or USUAL).items():
        while port in chosen.values() or not is_free(port):
            port = any_free()
        chosen[name] = port
    return chosen


def without_proxy(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which programs reach this machine directly, whatever proxy the environment names."""
    named = (environment.get("no_proxy") or environment.get("NO_PROXY") or "").strip()
    hosts = named if named == "*" else ",".join(filter(None, (named, HOST)))
    return {"no_proxy": hosts, "NO_PROXY": hosts}


TIMEOUT_S = 5.0

Health = Callable[[float], bool]
"""Returns whether a service that was started at a time (Unix seconds) is healthy now."""


# ignore proxies from the environment between two processes of this machine
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url: str, token: str | None = None) -> bytes | None:
    """Fetch a page of this machine, with an optional bearer token.

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
    """Return a check that a page answers with 200."""
    return lambda _started: get(url, token) is not None


def heartbeat(url: str, component: str) -> Health:
    """Return a check that an Airflow component is healthy and has sent a heartbeat since it was started.

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
        # right after a restart, the heartbeat from before still counts as healthy
        return datetime.fromisoformat(last).replace(tzinfo=UTC).timestamp() >= started

    return healthy

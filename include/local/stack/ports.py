"""Chooses ports on the loopback address: the usual one where it is free, else any free one."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"
USUAL = {"airflow": 8080, "execution": 8081, "mlflow": 5000}


def is_free(port: int) -> bool:
    """Whether nothing listens on a port that a client of 127.0.0.1 would reach.

    Args:
        port: 1 to 65535.
    """
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

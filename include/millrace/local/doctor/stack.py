"""Checks of the local stack: services, ports, cluster, locks and runner."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress

import psutil

from millrace.drivers import delegated_reconciler
from millrace.environment.home import Home
from millrace.local.doctor.finding import Finding, ok, problem, warning
from millrace.local.stack import lifecycle
from millrace.local.stack.loopback import HOST, is_free
from millrace.local.stack.supervisor import usual_ports
from millrace.model.deployment import Deployment
from millrace.model.master import EMBEDDED, LOCAL, YARN, addresses
from millrace.run_folder.discovery import find
from millrace.run_folder.lock import holders
from millrace.wiring import airflow_is_elsewhere

CONNECT_S = 2.0


def services(home: Home, wanted: Sequence[Deployment]) -> Finding:
    """Check that the stack is up if pipelines should run, and that all services are healthy."""
    record = lifecycle.status(home)
    names = ", ".join(d.pipeline for d in wanted)
    if record is None:
        if airflow_is_elsewhere():
            return ok("stack", "Airflow and the cluster do not belong to this home.")
        if not wanted:
            return ok("stack", "The stack is down, and no pipeline needs it.")
        told = f"The stack is down: nothing evaluates or restarts {names}."
        return warning("stack", told, "Run ./millrace up.")
    if not record.running:
        return problem("stack", "The supervisor was killed; its services may still run.", "Run ./millrace up.")
    sick = {name: service.state for name, service in record.services.items() if not service.well}
    if sick:
        told = ", ".join(f"{name} is {state}" for name, state in sick.items())
        starting = record.healthy_s is None and set(sick.values()) <= {"waiting", "starting"}
        remedy = f"Read ./millrace logs {next(iter(sick))}."
        return warning("stack", f"{told}.", remedy) if starting else problem("stack", f"{told}.", remedy)
    return ok("stack", f"All {len(record.services)} services are healthy.")


def ports(home: Home, wanted: Sequence[Deployment]) -> Finding:
    """Check that the stack has its ports, or can get the cluster's port, which running jobs look for."""
    record, usual = lifecycle.status(home), usual_ports(home)
    if record is not None and record.running:
        return ok("ports", ", ".join(f"{port} {name}" for name, port in record.ports.items()) + ".")
    taken = [name for name, port in usual.items() if not is_free(port)]
    if "spark" in taken and EMBEDDED in _masters(wanted):
        told = f"The cluster's port {usual['spark']}, which running jobs use, is taken{_listener(usual['spark'])}."
        return warning("ports", told, "Free it before ./millrace up, or launch the pipelines again afterwards.")
    if taken:
        named = ", ".join(str(usual[name]) for name in taken)
        return ok("ports", f"{named}: in use by other programs; ./millrace up uses free ports instead.")
    return ok("ports", f"{', '.join(map(str, usual.values()))}: free.")


def cluster(home: Home, wanted: Sequence[Deployment]) -> Finding:
    """Check that the pipelines' clusters answer."""
    record = lifecycle.status(home)
    masters = sorted(_masters(wanted) - {LOCAL})
    if record is not None and record.running and EMBEDDED not in masters:
        masters = [EMBEDDED, *masters]
    silent = []
    for master in masters:
        port = record.ports.get("spark") if record is not None and record.running else None
        known = ([(HOST, port)] if port else []) if master == EMBEDDED else addresses(master)
        # YARN's address is in Hadoop's own settings
        if master != YARN and not any(_answers(*address) for address in known):
            silent.append(master)
    if silent:
        remedy = "Run ./millrace up." if silent == [EMBEDDED] else "Start the cluster, or correct submit.master."
        return problem("cluster", f"{', '.join(silent)} does not answer.", remedy)
    return ok("cluster", f"{', '.join(masters)} answers." if masters else "No pipeline needs a cluster.")


def locks(home: Home) -> Finding:
    """Check that only drivers hold the apps' locks; the kernel frees the locks of ended processes."""
    drivers = home.run / "drivers"
    strangers = []
    for folder in sorted(lock.parent for lock in drivers.glob("*/*/app.lock")):
        known = {process.pid for driver in find(drivers, folder.parent.name) for process in driver.processes}
        strangers += [f"{folder.name} by {_process(pid)}" for pid in holders(folder) if pid not in known]
    if strangers:
        told = f"Processes other than drivers hold locks: {'; '.join(strangers)}."
        return problem("locks", told, "End these processes: until then no driver of the app can start.")
    return ok("locks", "Only drivers hold locks.")


def runner(home: Home) -> Finding:
    """Check that the runner, which owns the drivers here, is running."""
    silent = delegated_reconciler.silence(home.run / "drivers")
    if silent is not None:
        return problem("runner", f"{silent[0].upper()}{silent[1:]}.", delegated_reconciler.RESTART)
    return ok("runner", "The runner, which owns the drivers, is running.")


def _masters(wanted: Sequence[Deployment]) -> set[str]:
    return {str(app.submit.get("master", LOCAL)) for deployment in wanted for app in deployment.apps.values()}


def _listener(port: int) -> str:
    """Return the process that listens on a port, if this user may see it."""
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,)
            if listens and connection.pid is not None:
                return f" by {_process(connection.pid)}"
    return ""


def _process(pid: int) -> str:
    with suppress(psutil.Error):
        return f"{psutil.Process(pid).name()} (pid {pid})"
    return f"pid {pid}"


def _answers(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), CONNECT_S):
        return True
    return False

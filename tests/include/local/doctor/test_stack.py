"""Checks of the stack, its ports, clusters and locks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.drivers.delegated_reconciler import HEARTBEAT_FILE, show_life
from millrace.environment.home import Home
from millrace.local.doctor import stack
from millrace.local.doctor.finding import Level
from millrace.local.stack import supervisor
from millrace.local.stack.loopback import USUAL, any_free
from millrace.local.stack.stack_record import ServiceRecord, StackRecord
from millrace.model.deployment import Deployment
from millrace.places import REPO
from millrace.run_folder.process import ProcessId
from tests.include.local.demo.synthetic import spec_of

HOLDER = REPO / "tests" / "include" / "run_folder" / "holder.py"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.ensure()
    return home


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def _wanted(master: str) -> list[Deployment]:
    first = spec_of().first_deployment()
    return [replace(first, apps={name: replace(app, submit={"master": master}) for name, app in first.apps.items()})]


def _record(home: Home, *, state: str = "healthy", port: int = 1) -> None:
    services = {"spark-master": ServiceRecord(state, time.time())}
    record = StackRecord(ProcessId.of(os.getpid()), time.time(), {"spark": port}, services, healthy_s=1.0)
    record.write(supervisor.record_path(home))


def test_stack_that_is_down_matters_only_to_pipelines_that_should_run(home: Home) -> None:
    assert stack.services(home, []).level is Level.OK
    found = stack.services(home, _wanted("local"))
    assert found.level is Level.WARNING and "./millrace up" in found.remedy


def test_installation_in_another_airflow_needs_no_stack(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace.places.IN_CHECKOUT", False)
    assert stack.services(home, _wanted("local")).level is Level.OK
    _record(home, state="unhealthy")
    assert stack.services(home, _wanted("local")).level is Level.PROBLEM


def test_unhealthy_service_is_named_with_its_log(home: Home) -> None:
    _record(home)
    assert stack.services(home, []).level is Level.OK
    _record(home, state="backing off")
    found = stack.services(home, [])
    assert found.level is Level.PROBLEM
    assert "spark-master is backing off" in found.sentence and "./millrace logs spark-master" in found.remedy


def test_stack_whose_supervisor_was_killed_is_a_problem(home: Home) -> None:
    record = StackRecord(ProcessId(2**22, 1.0, "another boot", 1), 1.0, {}, {})
    record.write(supervisor.record_path(home))
    assert stack.services(home, []).level is Level.PROBLEM


def test_taken_cluster_port_is_named_if_jobs_look_for_it_there(home: Home, listener: int) -> None:
    ports = {name: any_free() for name in USUAL}
    (home.run / "ports.json").write_text(str({**ports, "spark": listener}).replace("'", '"'))
    assert stack.ports(home, []).level is Level.OK
    found = stack.ports(home, _wanted("embedded"))
    assert found.level is Level.WARNING
    assert str(listener) in found.sentence and f"pid {os.getpid()}" in found.sentence


def test_cluster_is_a_problem_if_it_does_not_answer(home: Home, listener: int) -> None:
    assert stack.cluster(home, _wanted("embedded")).level is Level.PROBLEM
    _record(home, port=listener)
    assert stack.cluster(home, _wanted("embedded")).level is Level.OK
    assert stack.cluster(home, _wanted(f"spark://127.0.0.1:{listener}")).level is Level.OK
    gone = f"spark://127.0.0.1:{any_free()}"
    assert gone in stack.cluster(home, _wanted(gone)).sentence


def test_lock_that_no_driver_holds_is_a_problem(home: Home) -> None:
    folder = home.run / "drivers" / "p" / "a"
    argv = [sys.executable, str(HOLDER), str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"True\n"
        found = stack.locks(home)
        holder.kill()
    assert found.level is Level.PROBLEM and f"pid {holder.pid}" in found.sentence
    assert stack.locks(home).level is Level.OK


def test_runner_that_is_silent_is_a_problem(home: Home) -> None:
    assert "has not started yet" in stack.runner(home).sentence
    show_life(home.run / "drivers")
    assert stack.runner(home).level is Level.OK
    os.utime(home.run / "drivers" / HEARTBEAT_FILE, (1, 1))
    assert stack.runner(home).level is Level.PROBLEM

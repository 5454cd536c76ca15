"""The embedded cluster's services."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from millrace.environment.home import Home
from millrace.local.stack import loopback, secrets, service_processes
from millrace.local.stack.spark_cluster import cluster_services, write_config
from millrace.run_folder.process import ProcessId
from tests.jobs.driving import until


@pytest.mark.parametrize("taken", ["spark", "spark_master"])
def test_master_when_its_port_was_just_taken_then_ends_instead_of_taking_another(tmp_path: Path, taken: str) -> None:
    home = Home(tmp_path)
    shared = secrets.load(home)
    write_config(home, shared)
    ports = {name: loopback.any_free() for name in ("spark", "spark_master", "spark_worker")}
    master, _ = cluster_services(home, shared, ports)
    log = tmp_path / "log"
    with socket.create_server((loopback.HOST, ports[taken])):
        process = service_processes.start(master, home.root, log)
        leader = ProcessId.of(process.pid)
        try:
            until(lambda: process.poll() is not None or "elected leader" in log.read_text(), "an end or a master")
            assert process.poll(), log.read_text()
        finally:
            service_processes.stop([leader], home.root)
    assert "BindException" in log.read_text()

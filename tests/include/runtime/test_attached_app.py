"""What an attached driver knows of its application; Spark itself is in tests/jobs/test_attach.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from millrace.runtime import attached_app
from millrace.runtime.agent.allocation import Executor
from millrace.runtime.attached_app import AttachedApp


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> AttachedApp:
    """Return an application whose second executor has one task less, as after a death of memory on Kubernetes."""
    registered = (Executor("1", "10.0.0.2", 4), Executor("2", "10.0.0.3", 2))
    cluster = SimpleNamespace(registered=lambda: registered, lifetimes=lambda: (), spark_version="4.2.0")
    monkeypatch.setattr(attached_app, "Allocation", lambda spark: cluster)
    monkeypatch.setattr(attached_app, "StatePlacement", lambda spark: None)
    conf: dict[str, str] = {"spark.task.cpus": "2", "spark.executor.cores": "4"}
    context: Any = SimpleNamespace(master="k8s://https://api.example:6443", getConf=lambda: conf)
    return AttachedApp(SimpleNamespace(sparkContext=context))  # type: ignore[arg-type]


def test_slots_are_the_tasks_that_each_executor_can_run(app: AttachedApp) -> None:
    assert app.slots == 3

"""Metrics as a collector gets them, from a server that listens here."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from millrace.model.decision import Action, Decision, Outcome, Reconfiguration
from millrace.reporting.metrics import export_changes, export_decision
from tests.http_server import posted_bodies
from tests.include.control.test_decide import APP, SIGNALS
from tests.include.control.world import NAME, NOON

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
LAGGING = replace(SIGNALS, apps=(replace(APP, lag={"orders/3": 700}),))
DECISION = Decision("d", NAME, NOON, Action.APPLY, "under_provisioned", "more", signals=LAGGING)
CHANGE = Reconfiguration(NAME, NAME, None, "T2", 1, 2, 2, NOON, NOON, 4.5, Outcome.READY)
Point = tuple[str, tuple[tuple[str, str], ...], float]


def metrics(posted: list[bytes]) -> Iterator[Metric]:
    """Yield the metrics of all exports."""
    for body in posted:
        request = ExportMetricsServiceRequest.FromString(body)
        yield from (m for r in request.resource_metrics for s in r.scope_metrics for m in s.metrics)


def points(posted: list[bytes]) -> set[Point]:
    """Return name, labels and value (a histogram's sum) of each point."""
    found = set()
    for metric in metrics(posted):
        for point in getattr(metric, metric.WhichOneof("data")).data_points:
            labels = tuple(sorted((a.key, a.value.string_value) for a in point.attributes))
            value = point.sum if metric.HasField("histogram") else point.as_double or point.as_int
            found.add((metric.name, labels, round(value, 3)))
    return found


def test_decision_is_exported_with_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    with posted_bodies() as (endpoint, posted):
        monkeypatch.setenv(ENDPOINT, endpoint)
        export_decision(DECISION, 0.25)
        pipeline, app = (("pipeline", NAME),), (("app", NAME), ("pipeline", NAME))
        of_decision = (("action", "apply"), *pipeline, ("reason", "under_provisioned"))
        assert points(posted) == {
            ("millrace.decisions", of_decision, 1),
            ("millrace.evaluation.duration", pipeline, 0.25),
            ("millrace.arrival", app, 800.0),
            ("millrace.backlog", app, 1200),
            ("millrace.lag", (app[0], ("partition", "orders/3"), app[1]), 700),
            ("millrace.capacity", app, 467.2),
            ("millrace.slots", app, 2),
            ("millrace.busy", app, 0.9),
            ("millrace.utilization", app, round(800 / 467.2, 3)),
        }


def test_unknown_values_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = replace(APP, arrival_rows_per_s=None, backlog_rows=None, capacity=None, busy_ratio=None)
    with posted_bodies() as (endpoint, posted):
        monkeypatch.setenv(ENDPOINT, endpoint)
        export_decision(replace(DECISION, signals=replace(SIGNALS, apps=(unknown,))), 0.25)
        export_decision(replace(DECISION, signals=None), 0.25)
    assert {name for name, *_ in points(posted)} == {
        *("millrace.decisions", "millrace.evaluation.duration", "millrace.slots")
    }


def test_changes_are_exported_once_they_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with posted_bodies() as (endpoint, posted):
        monkeypatch.setenv(ENDPOINT, endpoint)
        export_changes([CHANGE, replace(CHANGE, outcome=Outcome.OPEN, ended=None)])
        labels = (("app", NAME), ("outcome", "ready"), ("pipeline", NAME), ("tier", "T2"))
        assert points(posted) == {
            ("millrace.reconfigurations", labels, 1),
            ("millrace.reconfiguration.downtime", labels, 4.5),
        }


def test_export_gives_up_while_the_collector_hangs_or_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    with posted_bodies(threading.Event()) as (endpoint, _):
        for address in (endpoint, "http://127.0.0.1:9"):
            monkeypatch.setenv(ENDPOINT, address)
            export_decision(DECISION, 0.25)


def test_without_an_endpoint_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENDPOINT, raising=False)
    code = (
        "import sys; from millrace.reporting.metrics import export_changes; export_changes(());"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

"""The Grafana dashboard shows each exported metric under its Prometheus name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from millrace.reporting.metrics import export_changes, export_decision
from tests.http_server import posted_bodies
from tests.include.reporting.test_metrics import CHANGE, DECISION, ENDPOINT, metrics

DASHBOARD = Path(__file__).resolve().parents[2] / "docs" / "grafana_dashboard.json"
SUFFIXES = {"{row}/s": "_per_second", "s": "_seconds", "1": "_ratio"}
"""What OpenTelemetry's exporter for Prometheus adds for units; those in braces alone add nothing."""


def exported(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the Prometheus names of the exported metrics."""
    with posted_bodies() as (endpoint, posted):
        monkeypatch.setenv(ENDPOINT, endpoint)
        export_decision(DECISION, 0.25)
        export_changes([CHANGE])
        names = set()
        for metric in metrics(posted):
            kind = {"sum": "_total", "histogram": "_bucket"}.get(metric.WhichOneof("data"), "")
            names.add(metric.name.replace(".", "_") + SUFFIXES.get(metric.unit, "") + kind)
    return names


def test_dashboard_shows_exactly_the_exported_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    shown = {name for panel in panels for t in panel["targets"] for name in re.findall(r"millrace_\w+", t["expr"])}
    assert shown == exported(monkeypatch)

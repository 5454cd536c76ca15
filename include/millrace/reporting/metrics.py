"""Export measurements and decisions as OpenTelemetry metrics, by OTLP over HTTP; nothing if no endpoint is set.

Endpoint, headers and the like are OpenTelemetry's own variables (``OTEL_EXPORTER_OTLP_ENDPOINT``). Each call is a whole
export, because the processes of tasks are short. Counters and histograms are deltas, which a collector adds up.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from millrace.model.decision import Decision, Outcome, Reconfiguration
from millrace.model.objective import Objective
from millrace.model.signals import AppSignals

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

ENDPOINTS = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXPORT_S = 2.0
"""Longest time that a collector may delay an evaluation."""
LOG = logging.getLogger(__name__)


def export_decision(decision: Decision, duration_s: float) -> None:
    """Export a Decision and the signals behind it.

    Args:
        decision: The Decision.
        duration_s: Time it took to make the Decision, seconds.
    """
    with _exported() as meter:
        if meter is None:
            return
        pipeline = {"pipeline": decision.pipeline}
        of_decision = {**pipeline, "action": decision.action.value, "reason": decision.reason_code}
        meter.create_counter("millrace.decisions", "{decision}").add(1, of_decision)
        meter.create_histogram("millrace.evaluation.duration", "s").record(duration_s, pipeline)
        measured = [(app, decision.signals.objective) for app in decision.signals.apps] if decision.signals else []
        for app, objective in measured:
            of_app = {**pipeline, "app": app.app}
            for name, unit, value in _measured(app, objective):
                if value is not None:
                    meter.create_gauge(name, unit).set(value, of_app)
            for partition, rows in app.lag.items():
                meter.create_gauge("millrace.lag", "{row}").set(rows, {**of_app, "partition": partition})


def export_changes(changes: Sequence[Reconfiguration]) -> None:
    """Export the changes of apps.

    Args:
        changes: Changes; those that have not ended are left out.
    """
    ended = [change for change in changes if change.outcome is not Outcome.OPEN]
    if not ended:  # true in most minutes
        return
    with _exported() as meter:
        if meter is None:
            return
        for change in ended:
            of_change = {
                **{"pipeline": change.pipeline, "app": change.app},
                **{"tier": change.tier, "outcome": change.outcome.value},
            }
            meter.create_counter("millrace.reconfigurations", "{reconfiguration}").add(1, of_change)
            if change.downtime_s is not None:
                meter.create_histogram("millrace.reconfiguration.downtime", "s").record(change.downtime_s, of_change)


def _measured(app: AppSignals, objective: Objective) -> Iterator[tuple[str, str, float | None]]:
    capacity = app.sustainable(objective)
    arrival = app.arrival_rows_per_s
    yield "millrace.arrival", "{row}/s", arrival
    yield "millrace.backlog", "{row}", app.backlog_rows
    yield "millrace.capacity", "{row}/s", capacity
    yield "millrace.slots", "{slot}", app.slots
    yield "millrace.busy", "1", app.busy_ratio
    yield "millrace.utilization", "1", arrival / capacity if capacity and arrival is not None else None


@contextmanager
def _exported() -> Iterator[Meter | None]:
    """Yield a meter whose metrics are exported at the end, None without an endpoint; failures are only logged."""
    if not any(os.environ.get(name) for name in ENDPOINTS):
        yield None
        return
    # importing takes a third of a second, so do it only to export
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
    from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource

    delta: dict[type, AggregationTemporality] = dict.fromkeys((Counter, Histogram), AggregationTemporality.DELTA)
    exporter = OTLPMetricExporter(timeout=EXPORT_S, preferred_temporality=delta)
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=float("inf"))
    provider = MeterProvider([reader], Resource.create({"service.name": "millrace"}), shutdown_on_exit=False)
    try:
        yield provider.get_meter("millrace")
    finally:
        try:
            provider.force_flush(timeout_millis=1000 * EXPORT_S)
            provider.shutdown(timeout_millis=1000 * EXPORT_S)
        except Exception as error:
            LOG.warning("Metrics were not exported: %s: %s", type(error).__name__, error)

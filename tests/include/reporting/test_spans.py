"""The attributes of a task's span, as an exporter gets them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import Tracer, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from millrace.model.decision import Outcome
from millrace.model.evaluation_outcome import EvaluationOutcome, State
from millrace.reporting.spans import add_changes, describe_outcome
from tests.include.control.world import NAME, NOON
from tests.include.reporting.test_metrics import CHANGE

DECIDED = EvaluationOutcome(State.DECIDED, "more", NAME, "d", "apply", "under_provisioned", "d")


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter) -> Iterator[Tracer]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("airflow")
    provider.shutdown()


def test_decision_is_on_the_span_of_its_task(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    with tracer.start_as_current_span("worker.evaluate"):
        describe_outcome(DECIDED)
    (span,) = exporter.get_finished_spans()
    assert span.attributes == {
        "millrace.pipeline": NAME,
        "millrace.decision_id": "d",
        "millrace.action": "apply",
        "millrace.reason": "under_provisioned",
        "millrace.sentence": "more",
    }


def test_each_change_is_an_event_at_its_start_time(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    failed = replace(CHANGE, outcome=Outcome.FAILED, error="no slots", downtime_s=None)
    with tracer.start_as_current_span("worker.apply"):
        add_changes([CHANGE, failed])
    (span,) = exporter.get_finished_spans()
    assert [event.timestamp for event in span.events] == 2 * [int(NOON.timestamp()) * 10**9]
    ready, other = (dict(event.attributes or {}) for event in span.events)
    assert (ready["millrace.outcome"], ready["millrace.downtime"]) == ("ready", 4.5)
    assert (other["millrace.outcome"], other["millrace.error"]) == ("failed", "no slots")
    assert "millrace.downtime" not in other


def test_without_a_span_nothing_happens() -> None:
    describe_outcome(DECIDED)
    add_changes([CHANGE])

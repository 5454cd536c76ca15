"""Describe decisions and changes on the OpenTelemetry span that Airflow opens for each task.

Airflow exports the span if its section ``traces`` says so; otherwise it records nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from millrace.model.decision import Reconfiguration
from millrace.model.evaluation_outcome import EvaluationOutcome


def describe_outcome(outcome: EvaluationOutcome) -> None:
    """Describe an evaluation's Decision on the span of its task or trigger; nothing if there is none."""
    from opentelemetry import trace

    if not outcome.decision_id:
        return
    trace.get_current_span().set_attributes(
        {
            "millrace.pipeline": outcome.pipeline,
            "millrace.decision_id": outcome.decision_id,
            "millrace.action": outcome.action,
            "millrace.reason": outcome.reason,
            "millrace.sentence": outcome.sentence,
        }
    )


def add_changes(changes: Iterable[Reconfiguration]) -> None:
    """Add each change to the task's span, as an event at the time it started."""
    from opentelemetry import trace

    span = trace.get_current_span()
    for change in changes:
        values = {
            "millrace.pipeline": change.pipeline,
            "millrace.app": change.app,
            "millrace.decision_id": change.decision_id,
            "millrace.tier": change.tier,
            "millrace.outcome": change.outcome.value,
            "millrace.downtime": change.downtime_s,
            "millrace.error": change.error,
        }
        attributes = {name: value for name, value in values.items() if value is not None}
        span.add_event("millrace.reconfiguration", attributes, int(change.started.timestamp() * 1e9))

"""Contracts as rows of the lake and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from include.model.codec import from_plain, to_json, to_plain
from include.model.decision import Decision, Reconfiguration
from include.model.signals import Observation
from include.model.telemetry import AppMetrics, BatchMetrics, OperatorBatch

_BATCH_COLUMNS = tuple(f.name for f in dataclasses.fields(BatchMetrics))
_OPERATOR_COLUMNS = tuple(f.name for f in dataclasses.fields(OperatorBatch))
_DECISION_JSON = ("signals", "proposals", "predicted", "guards", "target", "models")


def batch_row(batch: BatchMetrics) -> dict[str, Any]:
    """Return a batch as a row of ``telemetry/batches``."""
    row = _shallow(batch)
    row["durations_ms"] = dict(batch.durations_ms)
    row["operators"] = [_shallow(o) for o in batch.operators]
    return row


def batch_from_row(row: Mapping[str, Any]) -> BatchMetrics:
    """Return a row of ``telemetry/batches`` as a batch; null lists and maps become empty ones."""
    plain = {name: row[name] for name in _BATCH_COLUMNS if name in row}
    plain["durations_ms"] = dict(row.get("durations_ms") or {})
    plain["operators"] = tuple(_operator(o) for o in row.get("operators") or ())
    return BatchMetrics(**plain)


def _operator(row: Mapping[str, Any]) -> OperatorBatch:
    values: dict[str, Any] = {name: row.get(name) for name in _OPERATOR_COLUMNS}
    return OperatorBatch(**values)


def app_row(app: AppMetrics) -> dict[str, Any]:
    """Return an app's metrics as a row of ``telemetry/apps``."""
    return _shallow(app)


def decision_row(decision: Decision) -> dict[str, Any]:
    """Return a Decision as a row of ``control/decisions``; nested contracts as JSON."""
    row = _shallow(decision)
    row["action"] = decision.action.value
    for name in _DECISION_JSON:
        row[name] = None if row[name] is None else to_json(row[name])
    return row


def decision_from_row(row: Mapping[str, Any]) -> Decision:
    """Return a row of ``control/decisions`` as a Decision."""
    import json

    plain = to_plain({k: v for k, v in row.items() if k != "date"})
    for name in _DECISION_JSON:
        plain[name] = None if row.get(name) is None else json.loads(row[name])
    decision: Decision = from_plain(Decision, plain)
    return decision


def reconfiguration_row(change: Reconfiguration) -> dict[str, Any]:
    """Return a Reconfiguration as a row of ``control/reconfigurations``; ``time`` is when the row was known."""
    return {
        **_shallow(change),
        "time": change.ended or change.started,
        "outcome": change.outcome.value,
        "achieved": to_json(change.achieved),
    }


def reconfiguration_from_row(row: Mapping[str, Any]) -> Reconfiguration:
    """Return a row of ``control/reconfigurations`` as a Reconfiguration."""
    import json

    plain = {**to_plain(row), "achieved": json.loads(row["achieved"] or "{}")}
    change: Reconfiguration = from_plain(Reconfiguration, plain)
    return change


def observation_row(pipeline: str, observation: Observation) -> dict[str, Any]:
    """Return an Observation as a row of ``control/observations``."""
    return {**_shallow(observation), "pipeline": pipeline}


def observation_from_row(row: Mapping[str, Any]) -> Observation:
    """Return a row of ``control/observations`` as an Observation."""
    observation: Observation = from_plain(Observation, to_plain(row))
    return observation


def _shallow(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}

"""Converts contracts to rows of the lake and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from millrace.model.arrival import ArrivalBasis
from millrace.model.codec import from_plain, to_json
from millrace.model.decision import Decision, Reconfiguration
from millrace.model.key_map import KeySample
from millrace.model.signals import Observation
from millrace.model.telemetry import AppMetrics, BatchMetrics, ExecutorRun, OperatorBatch, PartitionFlow, PartitionRun

_BATCH_COLUMNS = tuple(f.name for f in dataclasses.fields(BatchMetrics))
_BATCH_MAPS = tuple(f.name for f in dataclasses.fields(BatchMetrics) if str(f.type).startswith("Mapping"))
_OPERATOR_COLUMNS = tuple(f.name for f in dataclasses.fields(OperatorBatch))
_PARTITION_RUN_COLUMNS = tuple(f.name for f in dataclasses.fields(PartitionRun))
_FLOW_COLUMNS = {
    "from_operator": "from_operator",
    "from_partition": "from_group",
    "to_operator": "to_operator",
    "to_partition": "to_group",
}
"""Columns of ``telemetry/flows`` whose fields in a PartitionFlow have another name or type."""
_FLOW_SAME = tuple(f.name for f in dataclasses.fields(PartitionFlow) if f.name not in _FLOW_COLUMNS)
_DECISION_JSON = ("signals", "proposals", "predicted", "guards", "target", "contingencies")
_OF_RUNS = ("models", "mlflow_run_id")
"""What ``control/runs`` holds."""


def batch_row(batch: BatchMetrics) -> dict[str, Any]:
    """Return a batch as a row of ``telemetry/batches``."""
    operators = [_columns(operator) for operator in batch.operators]
    maps = {name: dict(getattr(batch, name)) for name in _BATCH_MAPS}
    return {**_columns(batch), **maps, "operators": operators}


def batch_from_row(row: Mapping[str, Any]) -> BatchMetrics:
    """Return a row of ``telemetry/batches`` as a batch; null lists and maps become empty ones.

    It is built without validation, as an evaluation reads thousands. The quality gate has checked the columns.
    """
    values = {name: row[name] for name in _BATCH_COLUMNS if name in row}
    operators = ({name: operator.get(name) for name in _OPERATOR_COLUMNS} for operator in row.get("operators") or ())
    values["operators"] = tuple(OperatorBatch(**operator) for operator in operators)
    values |= {name: dict(row.get(name) or {}) for name in _BATCH_MAPS}
    basis = row.get("arrival_basis")
    values["arrival_basis"] = None if basis is None else ArrivalBasis(basis)
    return BatchMetrics(**values)


def app_row(app: AppMetrics) -> dict[str, Any]:
    """Return an app's metrics as a row of ``telemetry/apps``."""
    return {**_columns(app), "attached": None if app.attached is None else to_json(app.attached)}


def executor_row(run: ExecutorRun) -> dict[str, Any]:
    """Return an executor as a row of ``telemetry/executors``; ``time`` is when it ended, was measured or started."""
    return {**_columns(run), "time": run.ended or run.measured or run.started}


def executor_from_row(row: Mapping[str, Any]) -> ExecutorRun:
    """Return a row of ``telemetry/executors`` as an executor."""
    return from_plain(ExecutorRun, row)


def partition_run_row(run: PartitionRun) -> dict[str, Any]:
    """Return a state partition of a batch as a row of ``telemetry/partitions``."""
    return {**_columns(run), "operators": list(run.operators)}


def partition_run_from_row(row: Mapping[str, Any]) -> PartitionRun:
    """Return a row of ``telemetry/partitions`` as a state partition of a batch.

    It is built without validation, as thousands are read.
    """
    values: dict[str, Any] = {name: row.get(name) for name in _PARTITION_RUN_COLUMNS}
    return PartitionRun(**{**values, "operators": tuple(row["operators"])})


def partition_flow_row(flow: PartitionFlow) -> dict[str, Any]:
    """Return what passed between two state partitions as a row of ``telemetry/flows``."""
    ends = {"from_operator": str(flow.from_operator), "to_operator": str(flow.to_operator)}
    groups = {"from_group": flow.from_partition, "to_group": flow.to_partition}
    return {**{name: getattr(flow, name) for name in _FLOW_SAME}, **ends, **groups}


def partition_flow_from_row(row: Mapping[str, Any]) -> PartitionFlow:
    """Return a row of ``telemetry/flows`` that a driver wrote as what passed between two state partitions.

    It is built without validation, as thousands are read.
    """
    ends = {field: int(row[column]) for field, column in _FLOW_COLUMNS.items()}
    return PartitionFlow(**{**{name: row[name] for name in _FLOW_SAME}, **ends})


def key_sample_row(sample: KeySample) -> dict[str, Any]:
    """Return a sample of keys as a row of ``telemetry/keys``."""
    hot = [_columns(key) for key in sample.hot]
    return {**_columns(sample), "columns": list(sample.columns), "hot": hot}


def key_sample_from_row(row: Mapping[str, Any]) -> KeySample:
    """Return a row of ``telemetry/keys`` as a sample of keys.

    Raises:
        ValueError: If a value is missing.
    """
    return from_plain(KeySample, row)


def decision_row(decision: Decision) -> dict[str, Any]:
    """Return a Decision as a row of ``control/decisions``; nested contracts as JSON."""
    row = {name: value for name, value in _columns(decision).items() if name not in _OF_RUNS}
    row["action"] = decision.action.value
    nested = {name: None if row[name] is None else to_json(row[name]) for name in _DECISION_JSON}
    return {**row, **nested}


def decision_from_row(row: Mapping[str, Any]) -> Decision:
    """Return a row of ``control/decisions`` as a Decision."""
    values = {name: value for name, value in row.items() if value is not None}
    nested = {name: json.loads(values[name]) for name in _DECISION_JSON if name in values}
    return from_plain(Decision, {**values, **nested})


def run_row(decision: Decision, run_id: str, models: Mapping[str, str]) -> dict[str, Any]:
    """Return a Decision's MLflow run as a row of ``control/runs``."""
    of_decision = {"pipeline": decision.pipeline, "time": decision.time, "decision_id": decision.decision_id}
    return {**of_decision, "run_id": run_id, "models": to_json(models)}


def reconfiguration_row(change: Reconfiguration) -> dict[str, Any]:
    """Return a Reconfiguration as a row of ``control/reconfigurations``; ``time`` is when it ended or started."""
    return {
        **_columns(change),
        "time": change.ended or change.started,
        "outcome": change.outcome.value,
        "achieved": to_json(change.achieved),
    }


def reconfiguration_from_row(row: Mapping[str, Any]) -> Reconfiguration:
    """Return a row of ``control/reconfigurations`` as a Reconfiguration."""
    return from_plain(Reconfiguration, {**row, "achieved": json.loads(row["achieved"] or "{}")})


def observation_row(pipeline: str, observation: Observation) -> dict[str, Any]:
    """Return an Observation as a row of ``control/observations``."""
    return {**_columns(observation), "pipeline": pipeline}


def observation_from_row(row: Mapping[str, Any]) -> Observation:
    """Return a row of ``control/observations`` as an Observation."""
    return from_plain(Observation, row)


def _columns(contract: Any) -> dict[str, Any]:
    return {field.name: getattr(contract, field.name) for field in dataclasses.fields(contract)}

"""MLflow's client as all parts use it: short patience, no telemetry, one experiment a pipeline."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow import MlflowClient

PATIENCE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "3", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
"""Seconds a request and tries besides the first: a look must not wait for its notebook."""

MAX_PARAM = 6000
"""Longest parameter that MLflow's stores take."""


def connect(uri: str) -> MlflowClient:
    """Return the client of a tracking server, which is also its registry."""
    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient

    return MlflowClient(uri, registry_uri=uri)


def experiment(client: MlflowClient, pipeline: str, artifacts: str | None) -> str:
    """Return the id of a pipeline's experiment, made where it is not there yet.

    Args:
        client: MLflow's.
        pipeline: Name of the pipeline; also of the experiment.
        artifacts: Where a new experiment keeps its artifacts; None lets the server decide.
    """
    found = client.get_experiment_by_name(pipeline)
    if found is not None:
        return str(found.experiment_id)
    return str(client.create_experiment(pipeline, artifact_location=artifacts and f"{artifacts}/{pipeline}"))


def params(values: Mapping[str, object]) -> list[Any]:
    """Return parameters as MLflow's entities."""
    from mlflow.entities import Param

    return [Param(k, str(v)[:MAX_PARAM]) for k, v in values.items()]


def metrics(values: Mapping[str, float | None]) -> list[Any]:
    """Return metrics as MLflow's entities; what is None is left out."""
    from mlflow.entities import Metric

    now_ms = int(time.time() * 1000)
    return [Metric(k, float(v), now_ms, 0) for k, v in values.items() if v is not None]


def line(error: Exception) -> str:
    """Return an error in one line."""
    return " ".join(str(error).split())[:300]

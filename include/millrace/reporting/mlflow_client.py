"""MLflow's client and registry: short timeouts, one experiment per pipeline, models without pickle."""

from __future__ import annotations

import json
import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow import MlflowClient

LOG = logging.getLogger(__name__)

PATIENCE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "3", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
"""Seconds per request, and retries: an evaluation must not wait for MLflow."""

MAX_PARAM = 6000
"""Longest parameter that MLflow's stores accept."""

MATERIAL_RATIO = 0.05
"""A level is news if its mean throughput moved by more than this share; repeats scatter by about 1 %."""

TRUSTED = ("sklearn.", "skopt.", "numpy.", "scipy.")
"""Modules that a surrogate's types may come from: skops names what it would run, and nothing else is ever loaded."""

CHAMPION = "champion"
TRAINING_TAG = "millrace.training"


def connect(uri: str) -> MlflowClient:
    """Return the client of a tracking server, which is also its registry."""
    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient

    return MlflowClient(uri, registry_uri=uri)


def mark_failed(uri: str, run_id: str | None) -> None:
    """Mark a run as one of which only a part is logged, if it exists and MLflow can be reached."""
    if run_id is not None:
        with suppress(Exception):
            connect(uri).set_terminated(run_id, "FAILED")


def experiment(client: MlflowClient, pipeline: str, artifacts: str | None) -> str:
    """Return the id of a pipeline's experiment; a missing one is created, a deleted one restored.

    MLflow refuses runs in a deleted experiment, and another experiment of its name.

    Args:
        client: MLflow's client.
        pipeline: Name of the pipeline and of the experiment.
        artifacts: Location of a new experiment's artifacts; None lets the server decide.
    """
    known = client.get_experiment_by_name(pipeline)
    if known is not None:
        if known.lifecycle_stage == "deleted":
            LOG.info("MLflow's experiment %s had been deleted; it is restored with its runs", pipeline)
            client.restore_experiment(known.experiment_id)
        return str(known.experiment_id)
    return str(client.create_experiment(pipeline, artifact_location=artifacts and f"{artifacts}/{pipeline}"))


def params(values: Mapping[str, object]) -> list[Any]:
    """Return parameters as MLflow's entities."""
    from mlflow.entities import Param

    return [Param(k, str(v)[:MAX_PARAM]) for k, v in values.items()]


def metrics(values: Mapping[str, float | None]) -> list[Any]:
    """Return metrics as MLflow's entities, without those that are None."""
    from mlflow.entities import Metric

    now_ms = int(time.time() * 1000)
    return [Metric(k, float(v), now_ms, 0) for k, v in values.items() if v is not None]


def line(error: Exception) -> str:
    """Return an error in one line."""
    return " ".join(str(error).split())[:300]


Training = Mapping[str, tuple[float, ...]]
Fit = Callable[[Training], Any]
"""Returns the surrogate (a scikit-learn estimator) fitted on ``parallelism`` and ``throughput``."""


def model_name(pipeline: str, app: str) -> str:
    """Return the registered name of an app's surrogate."""
    return f"millrace-{pipeline}-{app}"


def register(client: MlflowClient, run_id: str, name: str, training: Training, fit: Fit) -> str | None:
    """Return the champion's version for this training data, registering a new one if the data is news.

    Args:
        client: MLflow's client; its tracking URI is used for the registry too.
        run_id: The run that the model belongs to.
        name: Registered name.
        training: Columns ``parallelism`` and ``throughput`` of equal length.
        fit: Fits the surrogate.
    """
    levels = level_means(training)
    if not levels:
        return None
    known = _champion(client, name)
    if known is not None and not material(json.loads(known.tags.get(TRAINING_TAG, "{}")), levels):
        return str(known.version)
    version = _log(client, run_id, name, fit(training))
    client.set_model_version_tag(name, version, TRAINING_TAG, json.dumps(levels))
    client.set_registered_model_alias(name, CHAMPION, version)
    return version


def level_means(training: Training) -> dict[str, float]:
    """Return the mean throughput of each p, by p as text."""
    points: dict[str, list[float]] = {}
    for p, throughput in zip(training.get("parallelism", ()), training.get("throughput", ()), strict=True):
        points.setdefault(f"{p:g}", []).append(throughput)
    return {p: sum(values) / len(values) for p, values in sorted(points.items(), key=lambda item: float(item[0]))}


def material(old: Mapping[str, float], new: Mapping[str, float]) -> bool:
    """Return whether training data changed enough for a new model."""
    if old.keys() != new.keys():
        return True
    return any(abs(new[p] - old[p]) > MATERIAL_RATIO * abs(old[p]) for p in old)


def _champion(client: MlflowClient, name: str) -> Any:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_model_version_by_alias(name, CHAMPION)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise


def _log(client: MlflowClient, run_id: str, name: str, model: Any) -> str:
    import mlflow
    import skopt
    from mlflow.models import Model
    from skops import io

    from millrace.reporting import artifacts

    mlflow.set_tracking_uri(client.tracking_uri)
    mlflow.set_registry_uri(client.tracking_uri)
    # skops looks up every name in every loaded module; each of Airflow's lazy ones answers with a warning
    with warnings.catch_warnings(action="ignore"):
        types = io.get_untrusted_types(data=io.dumps(model))
        strange = [t for t in types if not t.startswith(TRUSTED)]
        if strange:
            raise ValueError(f"the surrogate holds types that are not trusted: {', '.join(strange)}")
        with mlflow.start_run(run_id=run_id):
            info = Model.log(
                artifact_path=None,  # where models were before they had names
                name="surrogate",
                flavor=artifacts,
                flavor_name="sklearn",
                sk_model=model,
                serialization_format="skops",
                skops_trusted_types=types,
                pip_requirements=[f"scikit-optimize=={skopt.__version__}"],
                registered_model_name=name,
                await_registration_for=5,
            )
    return str(info.registered_model_version)

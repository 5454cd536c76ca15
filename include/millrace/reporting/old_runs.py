"""Delete MLflow runs of changes that were kept long enough, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from millrace.model.errors import MillraceError
from millrace.reporting.mlflow_client import connect, line
from millrace.reporting.tracker import DECISION_TAG

if TYPE_CHECKING:
    from mlflow import MlflowClient

PAGE = 200
MOST_RUNS = 5_000
"""Most runs to check per night."""
MODELS = "name LIKE 'millrace-%'"


def delete_old_runs(uri: str, before: datetime) -> int:
    """Mark runs of Decisions that started before a time as deleted, and return how many; ``mlflow gc`` frees the space.

    A run stays if an alias of a registered model leads to it: the champion is loaded from it.

    Args:
        uri: Tracking URI, also of the registry.
        before: Earliest start (UTC) to keep.

    Raises:
        MillraceError: If the server cannot be reached, or refuses.
    """
    from mlflow.exceptions import MlflowException

    client = connect(uri)
    try:
        needed = set(_behind_models(client))
        gone = [run.info.run_id for run in _old_runs(client, before) if run.info.run_id not in needed]
        for run_id in gone:
            client.delete_run(run_id)
    except MlflowException as error:
        remedy = f"The next night tries again; MILLRACE_KEEP_MLFLOW_DAYS=forever keeps all runs ({line(error)})."
        raise MillraceError("MLflow", uri, "a server that lets runs be deleted", remedy) from error
    return len(gone)


def _old_runs(client: MlflowClient, before: datetime) -> Iterator[Any]:
    where = f"attributes.start_time < {int(before.timestamp() * 1000)} and tags.`{DECISION_TAG}` LIKE '%'"
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    token, seen = None, 0
    while experiments and seen < MOST_RUNS:
        page = client.search_runs(experiments, where, max_results=PAGE, order_by=["start_time"], page_token=token)
        yield from page
        token, seen = page.token, seen + len(page)
        if not token:
            return


def _behind_models(client: MlflowClient) -> Iterator[str]:
    token = None
    while True:
        page = client.search_registered_models(MODELS, max_results=PAGE, page_token=token)
        for model in page:
            yield from (client.get_model_version(model.name, v).run_id for v in set(model.aliases.values()))
        token = page.token
        if not token:
            return

"""A run in MLflow for every replay, beside the changes of its pipeline."""

from __future__ import annotations

import json
import logging

from include.model.backtest import Backtest
from include.reporting.client import connect, experiment, line, metrics, params
from include.reporting.replay_figure import replay_figure
from include.reporting.replay_words import as_csv, plain, summary

LOG = logging.getLogger(__name__)

KIND_TAG, KIND = "kind", "replay"


def log_replay(uri: str | None, backtest: Backtest, artifacts: str | None = None) -> str | None:
    """Log a replay as a run of its pipeline's experiment and return its id.

    Args:
        uri: Tracking URI; None logs nothing.
        backtest: The replay.
        artifacts: Where a new experiment keeps its artifacts; the server decides by default.

    Returns:
        The run's id; None if there is no MLflow, or it is out of reach: a replay is shown all the same.
    """
    if uri is None:
        return None
    try:
        client = connect(uri)
        words = summary(backtest)
        tags = {KIND_TAG: KIND, "mlflow.note.content": words}
        begin = f"{backtest.looks[0].time:%Y%m%dT%H%M%S}"
        name = f"{KIND}-{backtest.tuner}-{begin}"
        experiment_id = experiment(client, backtest.pipeline, artifacts)
        run_id = str(client.create_run(experiment_id, tags=tags, run_name=name).info.run_id)
        made = params(
            {
                "pipeline": backtest.pipeline,
                "tuner": backtest.tuner,
                "since": backtest.looks[0].time.isoformat(),
                "until": backtest.looks[-1].time.isoformat(),
                "downtime_s": backtest.downtime_s,
                **{f"option.{key}": value for key, value in backtest.options.items()},
            }
        )
        client.log_batch(run_id, params=made, metrics=metrics(backtest.figures))
        client.log_text(run_id, json.dumps(plain(backtest), indent=1), "replay.json")
        client.log_text(run_id, as_csv(backtest), "replay.csv")
        client.log_figure(run_id, replay_figure(backtest), "replay.png")
        client.set_terminated(run_id)
    except Exception as error:
        LOG.warning("MLflow at %s: the replay is not logged whole: %s", uri, line(error))
        return None
    return run_id

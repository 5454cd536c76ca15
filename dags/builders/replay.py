"""``replay_<pipeline>``: show what another tuner would have done; triggered manually."""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, task

from millrace.control.timestamps import ALLOWED, PATTERN, parse_timestamp
from millrace.dags.builders.dag_defaults import dag_settings
from millrace.model.spec import PipelineSpec
from millrace.optimizers.registry import names
from millrace.plugins.outcomes import as_airflow

DOC = """
Runs a tuner on the recorded telemetry of `{name}`; MLflow and the page *Millrace* show what it would have done.
The pipeline does not change. `./millrace replay {name}` shows the same in a terminal.
"""
log = logging.getLogger(__name__)


def build(spec: PipelineSpec) -> DAG:
    """Return the DAG that replays a pipeline."""
    timestamp: dict[str, Any] = {"type": ["null", "string"], "pattern": PATTERN}
    with DAG(
        dag_id=f"replay_{spec.name}",
        description=f"Show what another tuner would have done with {spec.name}",
        doc_md=DOC.format(name=spec.name),
        schedule=None,
        params={
            "tuner": Param(spec.tuner.name, type="string", enum=[*names()], title="Tuner"),
            "options": Param({}, type="object", title="Options", description='Tuner options, for example {"alpha": 3}'),
            "since": Param(
                None, **timestamp, title="Since", description=f"{ALLOWED}; empty: a day before the last evaluation"
            ),
            "until": Param(None, **timestamp, title="Until", description="The same; empty: now"),
        },
        max_active_runs=1,
        **dag_settings("replay", pipeline=spec.name),
    ) as dag:

        @task(retries=0, execution_timeout=timedelta(minutes=20))
        def replay(params: dict[str, Any]) -> dict[str, Any]:
            from millrace.reporting.replay_report import log_replay, summarise
            from millrace.wiring import control_tables, replay, utc_now

            now = utc_now()
            with as_airflow():
                since = parse_timestamp(params["since"], now, "since") if params["since"] else None
                until = parse_timestamp(params["until"], now, "until") if params["until"] else now
                tables = control_tables()
                backtest = replay(spec, tables, params["tuner"], params["options"], since, until)
                run_id = log_replay(os.environ.get("MLFLOW_TRACKING_URI"), backtest)
                result = summarise(backtest, now, run_id)
                tables.replays.record(result)
            log.info("%s", result.sentence)
            return {"summary": result.sentence, "figures": dict(backtest.figures), "mlflow_run_id": run_id}

        replay()
    return dag

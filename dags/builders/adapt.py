"""``adapt_<pipeline>``: one evaluation. Evaluate, then apply or ask."""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Asset, AssetWatcher, Param, task

from millrace.dags.builders.dag_defaults import (
    apply_decision,
    dag_settings,
    decisions_asset,
    longest_change,
    reconfigurations_asset,
    slots_params,
)
from millrace.model.spec import PipelineSpec
from millrace.plugins.delta_commit import DeltaCommitTrigger
from millrace.plugins.evaluation import ASKED, NOTHING, EvaluateOperator
from millrace.wiring import lake_uri

DOC = """
Evaluates `{name}` when it commits telemetry, at most once per {period:g} s, and when it is silent for {silence:g} s.
In mode `{mode}`, a change {then}.
"""
THEN = {
    "advise": "is only recorded",
    "approve": "waits for approval in `approve_{name}`; evaluations continue",
    "auto": "is applied at once",
}
TIMEOUT = timedelta(seconds=180)
"""Time limit of an evaluation."""


def build(spec: PipelineSpec) -> DAG:
    """Return the DAG that adapts a pipeline."""
    with DAG(
        dag_id=f"adapt_{spec.name}",
        description=f"Adapt {spec.name} to its load",
        doc_md=_doc(spec),
        schedule=[_telemetry(spec)],
        # a hanging run would block every later evaluation
        dagrun_timeout=2 * TIMEOUT + 2 * longest_change(spec),
        params={
            **slots_params(spec, "Use this many slots instead of the tuner's choice"),
            "dry_run": Param(False, type="boolean", title="Dry run", description="Decide and record; change nothing"),
        },
        max_active_runs=1,
        **dag_settings("adapt", pipeline=spec.name),
    ) as dag:
        add_tasks(spec)
    return dag


def add_tasks(spec: PipelineSpec, *, form: bool = True) -> EvaluateOperator:
    """Add the tasks of one evaluation to the DAG or group that is being defined, and return the first one.

    Args:
        spec: The pipeline.
        form: Whether the DAG's params may ask for slots or a dry run.
    """
    evaluated = EvaluateOperator(
        task_id="evaluate",
        pipeline=spec.name,
        asked=ASKED if form else NOTHING,
        decisions=decisions_asset(spec),
        execution_timeout=TIMEOUT,
    )

    @task(execution_timeout=longest_change(spec), retries=2, outlets=[reconfigurations_asset(spec)])
    def apply(decision_id: str) -> list[str]:
        return apply_decision(spec, decision_id)

    evaluated >> apply(evaluated.output["due"])
    evaluated >> TriggerDagRunOperator(
        task_id="ask",
        trigger_dag_id=f"approve_{spec.name}",
        trigger_run_id=str(evaluated.output["decision_id"]),
        logical_date=None,
        conf={"decision_id": evaluated.output["decision_id"]},
        skip_when_already_exists=True,  # asked before the retry
    )
    return evaluated


def _doc(spec: PipelineSpec) -> str:
    then = THEN[spec.mode].format(name=spec.name)
    return DOC.format(name=spec.name, period=spec.period_s, silence=_silence_s(spec), mode=spec.mode, then=then)


def _silence_s(spec: PipelineSpec) -> float:
    """Return the silence after which an evaluation runs without new telemetry; the quality gate holds it then."""
    return spec.quality.max_age_s + spec.period_s


def _telemetry(spec: PipelineSpec) -> Asset:
    """Return the pipeline's telemetry as an Asset; its events are commits, or a long silence."""
    trigger = DeltaCommitTrigger(lake_uri(), "telemetry/batches", spec.name, spec.period_s, _silence_s(spec))
    return Asset(f"telemetry_{spec.name}", watchers=[AssetWatcher(f"commits_{spec.name}", trigger)])

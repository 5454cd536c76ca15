"""``adapt_<pipeline>``: one evaluation. Observe, decide, apply."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Asset, AssetWatcher, Param, XComArg, task
from airflow.sdk.timezone import utcnow

from millrace.dags.builders.dag_defaults import (
    apply_decision,
    dag_settings,
    decisions_asset,
    longest_change,
    reconfigurations_asset,
    slots_params,
)
from millrace.model.codec import from_plain, to_plain
from millrace.model.decision import Action
from millrace.model.spec import PipelineSpec
from millrace.plugins.delta_commit import DeltaCommitTrigger
from millrace.plugins.outcomes import as_airflow
from millrace.wiring import lake_uri

if TYPE_CHECKING:
    from millrace.control.evaluation import Request

DOC = """
Evaluates `{name}` when it commits telemetry, at most once per {period:g} s, and when it is silent for {silence:g} s.
In mode `{mode}`, a change {then}.
"""
THEN = {
    "advise": "is only recorded",
    "approve": "waits for approval in `approve_{name}`; evaluations continue",
    "auto": "is applied at once",
}
log = logging.getLogger(__name__)

TIMEOUT = timedelta(seconds=180)
"""Time limit of each of the tasks observe and decide."""
DECIDE = "decide"


def build(spec: PipelineSpec) -> DAG:
    """Return the DAG that adapts a pipeline."""
    with DAG(
        dag_id=f"adapt_{spec.name}",
        description=f"Adapt {spec.name} to its load",
        doc_md=_doc(spec),
        schedule=[_telemetry(spec)],
        # a hanging run would block every later evaluation
        dagrun_timeout=4 * TIMEOUT + 2 * longest_change(spec),
        params={
            **slots_params(spec, "Use this many slots instead of the tuner's choice"),
            "dry_run": Param(False, type="boolean", title="Dry run", description="Decide and record; change nothing"),
        },
        max_active_runs=1,
        **dag_settings("adapt", pipeline=spec.name),
    ) as dag:
        add_tasks(spec)
    return dag


def add_tasks(spec: PipelineSpec, *, form: bool = True) -> XComArg:
    """Add the tasks of one evaluation to the DAG or group that is being defined, and return the first one.

    Args:
        spec: The pipeline.
        form: Whether the DAG's params may ask for slots or a dry run.
    """
    apply_timeout, decisions = longest_change(spec), decisions_asset(spec)

    @task(execution_timeout=TIMEOUT)
    def observe(params: dict[str, Any], dag_run: Any) -> dict[str, Any]:
        from millrace.wiring import control_loop

        with as_airflow():
            return to_plain(control_loop(spec).observe(_request(params if form else {}, dag_run)))

    @task.branch(task_id=DECIDE, execution_timeout=TIMEOUT, outlets=[decisions])
    def decide(
        observed: dict[str, Any], params: dict[str, Any], dag_run: Any, ti: Any, outlet_events: Any
    ) -> list[str]:
        from millrace.control.evaluation import EvaluationInput
        from millrace.reporting.metrics import export_decision
        from millrace.reporting.spans import describe_decision
        from millrace.wiring import control_loop

        with as_airflow():
            observation, request = from_plain(EvaluationInput, observed), _request(params if form else {}, dag_run)
            loop = control_loop(spec)
            decision = loop.decide(observation, request)
            due = loop.commit(decision, request)  # carried out while Airflow starts the next task
        export_decision(decision, (utcnow() - observation.time).total_seconds())
        describe_decision(decision)
        log.info("%s: %s", decision.action, decision.sentence)
        summary = {name: to_plain(getattr(decision, name)) for name in ("decision_id", "action", "sentence")}
        for name, value in summary.items():
            ti.xcom_push(key=name, value=value)
        outlet_events[decisions].extra.update(summary)
        ti.xcom_push(key="due", value=due)
        following = [*(["apply"] if due else ()), *(["ask"] if decision.action is Action.AWAIT else ())]
        return [ti.task_id.removesuffix(DECIDE) + name for name in following]  # a group's tasks have its name in front

    @task(execution_timeout=apply_timeout, retries=2, outlets=[reconfigurations_asset(spec)])
    def apply(decision_id: str) -> list[str]:
        return apply_decision(spec, decision_id)

    observed = observe()
    decided = decide(observed)
    decided >> apply(decided["due"])
    decided >> TriggerDagRunOperator(
        task_id="ask",
        trigger_dag_id=f"approve_{spec.name}",
        trigger_run_id=str(decided["decision_id"]),
        logical_date=None,
        conf={"decision_id": decided["decision_id"]},
        skip_when_already_exists=True,  # asked before the retry
    )
    return observed


def _request(params: dict[str, Any], dag_run: Any) -> Request:
    from millrace.control.evaluation import Request

    slots, dry_run, app = params.get("slots"), params.get("dry_run", False), params.get("app")
    return Request(slots, dry_run, dag_run.triggering_user_name, app)


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

"""``adapt_<pipeline>``: one look. Observe, decide, apply."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Asset, AssetWatcher, Param, task

from dags.builders.dag_defaults import dag_settings, longest_change, slots_param
from include.local.stack.home import Home
from include.model.codec import from_plain, to_plain
from include.model.decision import Action
from include.model.spec import PipelineSpec
from plugins.delta_commit import DeltaCommitTrigger
from plugins.outcomes import as_airflow

if TYPE_CHECKING:
    from include.control.evaluation import Request

DOC = """
Looks at `{name}` when it commits telemetry, at most once in {period:g} s, and when it is silent for {silence:g} s.
In mode `{mode}` a change {then}.
"""
THEN = {
    "advise": "is only recorded",
    "approve": "waits for a person in `approve_{name}`, and no look waits with it",
    "auto": "is applied at once",
}
log = logging.getLogger(__name__)

BRANCHES = {Action.APPLY: "apply", Action.AWAIT: "ask"}


def build(spec: PipelineSpec) -> DAG:
    """Return the DAG that adapts a pipeline."""
    look_timeout, apply_timeout = timedelta(seconds=180), longest_change(spec)
    with DAG(
        dag_id=f"adapt_{spec.name}",
        description=f"Adapt {spec.name} to its load",
        doc_md=_doc(spec),
        schedule=[_telemetry(spec)],
        # a run that hangs would keep every later look out
        dagrun_timeout=4 * look_timeout + 2 * apply_timeout,
        params={
            "slots": slots_param(spec, "Force this many, whatever the tuner says"),
            "dry_run": Param(False, type="boolean", title="Dry run", description="Decide and record, change nothing"),
        },
        max_active_runs=1,
        **dag_settings("adapt", pipeline=spec.name),
    ) as dag:

        @task(execution_timeout=look_timeout)
        def observe(params: dict[str, Any], dag_run: Any) -> dict[str, Any]:
            from plugins.loop import loop_for

            with as_airflow():
                return to_plain(loop_for(spec.name).observe(_request(params, dag_run)))

        @task.branch(execution_timeout=look_timeout)
        def decide(observed: dict[str, Any], params: dict[str, Any], dag_run: Any, ti: Any) -> str | None:
            from include.control.evaluation import Observed
            from plugins.loop import loop_for

            with as_airflow():
                decision = loop_for(spec.name).decide(from_plain(Observed, observed), _request(params, dag_run))
            log.info("%s: %s", decision.action, decision.sentence)
            for name in ("decision_id", "action", "sentence"):
                ti.xcom_push(key=name, value=to_plain(getattr(decision, name)))
            return BRANCHES.get(decision.action)

        @task(execution_timeout=apply_timeout, retries=2)
        def apply(decision_id: str) -> list[str]:
            from plugins.loop import loop_for, reconciler_for
            from plugins.reconciliation import report

            with as_airflow():
                return report(loop_for(spec.name).apply(decision_id), reconciler_for(spec.name).problem())

        decided = decide(observe())
        decided >> apply(decided["decision_id"])
        decided >> TriggerDagRunOperator(
            task_id="ask",
            trigger_dag_id=f"approve_{spec.name}",
            trigger_run_id=str(decided["decision_id"]),
            logical_date=None,
            conf={"decision_id": decided["decision_id"]},
            skip_when_already_exists=True,  # asked before the retry
        )
    return dag


def _request(params: dict[str, Any], dag_run: Any) -> Request:
    from include.control.evaluation import Request

    return Request(params["slots"], params["dry_run"], dag_run.triggering_user_name)


def _doc(spec: PipelineSpec) -> str:
    then = THEN[spec.mode].format(name=spec.name)
    return DOC.format(name=spec.name, period=spec.period_s, silence=_silence_s(spec), mode=spec.mode, then=then)


def _silence_s(spec: PipelineSpec) -> float:
    """Return how long telemetry may be late before that is looked at: the quality gate holds on it then."""
    return spec.quality.max_age_s + spec.period_s


def _telemetry(spec: PipelineSpec) -> Asset:
    """Return the pipeline's telemetry as an Asset whose events are commits, or that none came for long."""
    lake = Home.from_env().lake
    trigger = DeltaCommitTrigger(
        str(lake / "telemetry" / "batches" / "_delta_log"),
        spec.name,
        spec.period_s,
        lake=str(lake),
        silence_s=_silence_s(spec),
    )
    return Asset(f"telemetry_{spec.name}", watchers=[AssetWatcher(f"commits_{spec.name}", trigger)])

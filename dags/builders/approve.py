"""``approve_<pipeline>``: one Decision waits for approval, without occupying a worker slot."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, task
from airflow.sdk.timezone import utcnow

from millrace.dags.builders.dag_defaults import apply_decision, dag_settings, longest_change, reconfigurations_asset
from millrace.model.spec import PipelineSpec
from millrace.plugins.approval import AnsweredBranchOperator
from millrace.plugins.outcomes import as_airflow

DOC = """
Shows one Decision of `{name}` under *Required Actions* and applies it if a person approves within {expires:g} s and
the guards still allow it. A rejection, an expiry or a veto is final: a cleared run is skipped.
"""


def build(spec: PipelineSpec) -> DAG:
    """Return the DAG in which a Decision waits."""
    with DAG(
        dag_id=f"approve_{spec.name}",
        description=f"Approve a change of {spec.name}",
        doc_md=DOC.format(name=spec.name, expires=spec.approval_expires_s),
        schedule=None,
        params={"decision_id": Param(type="string", pattern=r"^[0-9]{8}T[0-9]{6}-[0-9a-f]{8}$", title="Decision")},
        # a waiting Decision must not block the question about the next one
        max_active_runs=16,
        **dag_settings("approve", pipeline=spec.name),
    ) as dag:

        @task
        def present(params: dict[str, Any]) -> str:
            from millrace.control.pending_decision import question
            from millrace.wiring import control_tables

            with as_airflow():
                return question(control_tables(), spec.name, params["decision_id"])

        presented = present()
        ask = AnsweredBranchOperator(
            task_id="ask",
            subject=f"Change {spec.name}?",
            body=str(presented),
            options=["Approve", "Reject"],
            options_mapping={"Approve": "apply", "Reject": "refuse"},
            defaults="Reject",
            response_timeout=timedelta(seconds=spec.approval_expires_s),
        )

        @task(execution_timeout=longest_change(spec), retries=2, outlets=[reconfigurations_asset(spec)])
        def apply(answer: dict[str, Any], params: dict[str, Any]) -> list[str]:
            return apply_decision(spec, params["decision_id"], answer["by"])

        @task
        def refuse(answer: dict[str, Any], params: dict[str, Any]) -> str:
            from millrace.control import pending_decision
            from millrace.wiring import control_tables

            with as_airflow():
                veto = pending_decision.refuse(
                    control_tables(), spec.name, params["decision_id"], answer["by"], utcnow()
                )
                return veto.sentence

        answer = ask.output["answer"]
        presented >> ask >> [apply(answer), refuse(answer)]
    return dag

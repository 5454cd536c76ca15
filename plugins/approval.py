"""An approval task that records who answered."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.hitl import HITLBranchOperator


class AnsweredBranchOperator(HITLBranchOperator):
    """Push the person who answered as XCom ``answer``: ``{"by": name}``, None if the default was used at expiry.

    A branching task's own XCom contains only the chosen branch. ``ApprovalOperator`` does not fit: on a refusal it
    skips all downstream tasks, including the task that records the refusal.
    """

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Push the name, then branch as usual."""
        by = (event.get("responded_by_user") or {}).get("name")
        context["ti"].xcom_push(key="answer", value={"by": by})
        return super().execute_complete(context=context, event=event)

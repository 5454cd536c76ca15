"""A question to a person whose answer says who gave it."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.hitl import HITLBranchOperator


class AnsweredBranchOperator(HITLBranchOperator):
    """Pushes who answered as XCom ``answer``: ``{"by": name}``, None where the default was taken at expiry.

    A branching task's own XCom ends with the branch it chose. ``ApprovalOperator`` would serve but for its refusal,
    which skips whatever comes next, the record of the refusal included.
    """

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Keep the name, then branch as usual."""
        by = (event.get("responded_by_user") or {}).get("name")
        context["ti"].xcom_push(key="answer", value={"by": by})
        return super().execute_complete(context=context, event=event)

"""The task that evaluates a pipeline: it starts in the triggerer, and on a worker only if there is something to do.

Most evaluations change nothing. Those cost no task process: the triggerer has them evaluated and skips the task.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection
from typing import Any

from airflow.providers.standard.operators.branch import BaseBranchOperator
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.triggers.base import BaseTrigger, StartTriggerArgs, TaskSkippedEvent, TriggerEvent

from millrace.model.codec import from_plain, to_plain
from millrace.model.decision import Action
from millrace.model.evaluation_outcome import EvaluationOutcome, State
from millrace.reporting.spans import describe_outcome

ASKED = '{{ {"conf": dag_run.conf or {}, "user": dag_run.triggering_user_name} | tojson }}'
"""Template of a person's request: what the form of the DAG run holds."""
NOTHING = "{}"
log = logging.getLogger(__name__)


class EvaluationTrigger(BaseTrigger):
    """Evaluate a pipeline; skip the task if nothing follows from it, else let it continue on a worker.

    Args:
        pipeline: Name of the pipeline.
        asked: A person's request, see :func:`millrace.evaluator.evaluate.request_of`.
    """

    def __init__(self, pipeline: str, asked: str) -> None:
        super().__init__()
        self.pipeline, self.asked = pipeline, asked

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments."""
        return (
            # a literal: Airflow also has plugins/ itself on sys.path, where __module__ could be another name
            "millrace.plugins.evaluation.EvaluationTrigger",
            {"pipeline": self.pipeline, "asked": self.asked},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the one event of the evaluation."""
        from millrace.evaluator.processes import evaluated

        outcome = await evaluated(self.pipeline, self.asked)
        describe_outcome(outcome)
        self.log.info("%s: %s", outcome.action or outcome.state, outcome.sentence)
        yield TaskSkippedEvent(xcoms=_summary(outcome)) if outcome.is_quiet else TriggerEvent(to_plain(outcome))


class EvaluateOperator(BaseBranchOperator):
    """Evaluate a pipeline, and branch to what follows from its Decision.

    The task is skipped if the Decision changes nothing or there is nothing to evaluate, and fails without a retry if a
    person has to correct something. XComs: ``decision_id``, ``action``, ``sentence`` and ``due``, the id of the
    Decision to apply. Each Decision that proposes something is an event of the Asset.

    Args:
        pipeline: Name of the pipeline.
        asked: A person's request as JSON, or a template of it.
        decisions: Asset of the pipeline's Decisions.
    """

    template_fields = ("asked",)
    start_from_trigger = True

    def __init__(self, *, pipeline: str, asked: str, decisions: Asset, **settings: Any) -> None:
        super().__init__(outlets=[decisions], **settings)
        self.pipeline, self.asked = pipeline, asked
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls="millrace.plugins.evaluation.EvaluationTrigger",
            next_method="execute_complete",
            trigger_kwargs={"pipeline": pipeline, "asked": asked},
        )

    def execute(self, context: Any) -> Any:
        """Evaluate on the worker, where Airflow does not start tasks in the triggerer: ``airflow dags test``."""
        from millrace.evaluator.evaluate import evaluate

        return self._branch(context, evaluate(self.pipeline, self.asked))

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Continue after the evaluation in the triggerer."""
        return self._branch(context, from_plain(EvaluationOutcome, event))

    def _branch(self, context: Any, outcome: EvaluationOutcome) -> Any:
        describe_outcome(outcome)
        match outcome.state:
            case State.ERROR:
                raise AirflowException(outcome.sentence)
            case State.PROBLEM:
                raise AirflowFailException(outcome.sentence)
        summary = _summary(outcome)
        for key, value in summary.items():
            context["ti"].xcom_push(key=key, value=value)
        if outcome.is_quiet:
            raise AirflowSkipException(outcome.sentence)
        log.info("%s: %s", outcome.action, outcome.sentence)
        context["outlet_events"][self.outlets[0]].extra.update(summary)
        return self.do_branch(context, list(self._following(outcome)))

    def _following(self, outcome: EvaluationOutcome) -> Collection[str]:
        group = self.task_id.rpartition(".")[0]  # a group's tasks have its name in front
        names = [*(["apply"] if outcome.due else ()), *(["ask"] if outcome.action == Action.AWAIT else ())]
        return [f"{group}.{name}" if group else name for name in names]


def _summary(outcome: EvaluationOutcome) -> dict[str, Any]:
    return {name: getattr(outcome, name) for name in ("decision_id", "action", "sentence", "due")}

"""Evaluate one pipeline: observe, decide, and commit what needs no approval."""

from __future__ import annotations

import json
import traceback

from millrace.control.evaluation import Request
from millrace.model.errors import MillraceError, NotReady, Settled
from millrace.model.evaluation_outcome import EvaluationOutcome, State


def evaluate(pipeline: str, asked: str) -> EvaluationOutcome:
    """Evaluate a pipeline once.

    Args:
        pipeline: Its name.
        asked: A person's request as JSON, see :func:`request_of`.

    Returns:
        The outcome; every error is in it, too.
    """
    try:
        return _evaluate(pipeline, request_of(asked))
    except (NotReady, Settled) as reason:
        return EvaluationOutcome(State.NOT_DUE, str(reason), pipeline)
    except MillraceError as problem:
        return EvaluationOutcome(State.PROBLEM, str(problem), pipeline)
    except Exception:
        return EvaluationOutcome(State.ERROR, traceback.format_exc(), pipeline)


def request_of(asked: str) -> Request:
    """Return a person's request.

    Args:
        asked: JSON object with ``user``, the person's name or null, and ``conf``, with ``slots``, ``dry_run`` and
            ``app`` as far as they are given.
    """
    wish = json.loads(asked)
    conf = wish.get("conf") or {}
    return Request(conf.get("slots"), bool(conf.get("dry_run")), wish.get("user"), conf.get("app"))


def _evaluate(pipeline: str, request: Request) -> EvaluationOutcome:
    from millrace.pipelines.catalog import find
    from millrace.reporting.metrics import export_decision
    from millrace.wiring import control_loop, utc_now

    loop, begun = control_loop(find(pipeline)), utc_now()
    try:
        decision = loop.decide(loop.observe(request), request)
    except NotReady:
        unfinished = loop.unfinished()
        if unfinished is None:
            raise
        decision = unfinished
    due = loop.commit(decision, request)  # carried out while Airflow starts the next task
    ended = utc_now()
    export_decision(decision, (ended - begun).total_seconds())
    return EvaluationOutcome(
        State.DECIDED,
        decision.sentence,
        pipeline,
        decision.decision_id,
        decision.action.value,
        decision.reason_code,
        due,
        ended,
    )

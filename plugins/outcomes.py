"""Results of a task for Airflow: skip it, fail it, or log the changes that it made."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.errors import MillraceError, NotReady, Settled
from millrace.plugins.airflow_secrets import airflow_secret

if TYPE_CHECKING:
    from millrace.lake.control_tables import ControlTables
    from millrace.model.spec import PipelineSpec

log = logging.getLogger(__name__)


@contextmanager
def as_airflow() -> Iterator[None]:
    """Skip the task if there is nothing to do; fail it without retries on an error that only a person can fix."""
    try:
        yield
    except (NotReady, Settled) as outcome:
        raise AirflowSkipException(str(outcome)) from outcome
    except MillraceError as problem:
        raise AirflowFailException(str(problem)) from problem


def report_changes(spec: PipelineSpec, changes: Iterable[Reconfiguration], problem: str | None) -> list[str]:
    """Log each change, export it on the task's span and as metrics unless a runner does, and return it as a sentence.

    Args:
        spec: The pipeline.
        changes: The changes, oldest first.
        problem: Why the pipeline does not run afterwards although it should; None if all is well.

    Raises:
        AirflowFailException: If the pipeline does not run, or a version was given up. There is no retry, because the
            reconciler has its own back-off.
    """
    from millrace.reporting.metrics import export_changes
    from millrace.reporting.spans import add_changes
    from millrace.wiring import has_runner

    changes = list(changes)
    if not has_runner(spec):
        export_changes(changes)
    add_changes(changes)
    sentences = [_sentence(change) for change in changes]
    for sentence in sentences or ["nothing to change"]:
        log.info("%s", sentence)
    if problem is not None:
        raise AirflowFailException(problem)
    if any(_given_up(change) for change in changes) or _ended_badly(changes):
        raise AirflowFailException("; ".join(sentences))
    return sentences


def is_settled(spec: PipelineSpec, tables: ControlTables) -> bool:
    """Take a pipeline's next step without waiting, and return whether nothing is left to do or to report.

    Args:
        spec: The pipeline.
        tables: The control tables.
    """
    from millrace.wiring import query_failures, reconciler_for

    try:
        reconciler = reconciler_for(spec, tables, airflow_secret)
        changes = reconciler.reconcile(wait_s=0, patience_s=0)
        if changes:
            report_changes(spec, changes, None)
        is_under_way = any(change.outcome is Outcome.OPEN for change in changes)
        return not (is_under_way or reconciler.problem() or query_failures(spec.name, list(spec.app_specs)))
    except Exception as error:  # its own task meets and reports it
        log.info("%s: %s", spec.name, error)
        return False


def _given_up(change: Reconfiguration) -> bool:
    return change.outcome in (Outcome.ROLLED_BACK, Outcome.CIRCUIT_OPEN)


def _ended_badly(changes: list[Reconfiguration]) -> bool:
    """Return whether an app's last change failed; a hung driver that was restarted does not count."""
    return any(change.outcome is Outcome.FAILED for change in {change.app: change for change in changes}.values())


def _sentence(change: Reconfiguration) -> str:
    versions = f"version {change.from_version or '-'} -> {change.to_version or '-'}"
    downtime = "" if change.downtime_s is None else f", {change.downtime_s:.1f} s without a batch"
    error = f": {change.error}" if change.error else ""
    outcome = "in progress" if change.outcome is Outcome.OPEN else change.outcome.value
    return f"{change.pipeline}/{change.app} {change.tier} {versions}: {outcome}{downtime}{error}"

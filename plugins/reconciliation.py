"""What a reconciliation did, for the task log, and whether its task has failed."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from airflow.sdk.exceptions import AirflowFailException

from include.contracts.decision import Outcome, Reconfiguration

FAILED = frozenset({Outcome.FAILED, Outcome.ROLLED_BACK, Outcome.CIRCUIT_OPEN})

log = logging.getLogger(__name__)


def told(changes: Iterable[Reconfiguration]) -> list[str]:
    """Log each change and return it as a sentence.

    Raises:
        AirflowFailException: If a change failed. Not retried: the reconciler has its own back-off.
    """
    changes = list(changes)
    sentences = [_sentence(change) for change in changes]
    for sentence in sentences or ["nothing differed"]:
        log.info("%s", sentence)
    if any(change.outcome in FAILED for change in changes):
        raise AirflowFailException("; ".join(sentences))
    return sentences


def _sentence(change: Reconfiguration) -> str:
    versions = f"version {change.from_version or '-'} -> {change.to_version or '-'}"
    downtime = "" if change.downtime_s is None else f", {change.downtime_s:.1f} s without a batch"
    error = f": {change.error}" if change.error else ""
    return f"{change.pipeline}/{change.app} {change.tier} {versions}: {change.outcome.value}{downtime}{error}"

"""Read what was recorded of a pipeline: its evaluations, and everything that they were decided by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from millrace.control.guard_context import JUDGED_BY
from millrace.lake.control_tables import ControlTables
from millrace.model.decision import Decision, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.errors import MillraceError

DEFAULT_SPAN = timedelta(days=1)
MOST_CHANGES = 100_000


@dataclass(frozen=True)
class Recording:
    """A part of a pipeline's past.

    Attributes:
        pipeline: Name of the pipeline.
        evaluations: Decisions with signals, oldest first, at least one; each was decided on one of ``deployments``.
        deployments: The pipeline's Deployments by version.
        changes: Its Reconfigurations, newest first, from the guards' horizon before the first evaluation on.
        others: Deployments of the other pipelines with the time each was made (UTC), oldest first.
    """

    pipeline: str
    evaluations: tuple[Decision, ...]
    deployments: Mapping[int, Deployment]
    changes: tuple[Reconfiguration, ...]
    others: tuple[tuple[datetime, Deployment], ...]

    def others_at(self, time: datetime) -> Sequence[Deployment]:
        """Return the newest Deployment of each other pipeline at a time."""
        return list({deployment.pipeline: deployment for at, deployment in self.others if at <= time}.values())


def read_recording(pipeline: str, tables: ControlTables, since: datetime | None, until: datetime) -> Recording:
    """Read what was recorded of a pipeline.

    Args:
        pipeline: Name of the pipeline.
        tables: The control tables.
        since: Time of the first evaluation (UTC); None for a day before the last one.
        until: Latest time of an evaluation (UTC).

    Raises:
        MillraceError: If ``since`` is not before ``until``, or nothing was recorded between them.
    """
    if since is not None and since >= until:
        raise MillraceError(
            "since", f"{since:%Y-%m-%d %H:%M:%S}", f"a time before {_text(until)}", "Name an earlier one."
        )
    deployments = tables.deployments.history()
    newest = _newest_evaluation(tables, pipeline, until)
    own = {deployment.version: deployment for _, deployment in deployments if deployment.pipeline == pipeline}
    recorded = tables.decisions.evaluations(pipeline, newest - DEFAULT_SPAN if since is None else since, until)
    evaluations = tuple(evaluation for evaluation in recorded if evaluation.base_version in own)
    if not evaluations:
        raise MillraceError(
            "since", None if since is None else _text(since),
            f"a time up to the last recorded evaluation, {_text(newest)}", "Name an earlier one.",
        )  # fmt: skip
    begin = evaluations[0].time - JUDGED_BY
    changes = tables.reconfigurations.recent(pipeline, MOST_CHANGES, since=begin)
    others = tuple((at, deployment) for at, deployment in deployments if deployment.pipeline != pipeline)
    return Recording(pipeline, evaluations, own, tuple(changes), others)


def _newest_evaluation(tables: ControlTables, pipeline: str, until: datetime) -> datetime:
    newest = tables.decisions.last_evaluation(pipeline, until)
    if newest is None:
        raise MillraceError(
            "pipeline", pipeline, f"a pipeline that was evaluated before {_text(until)}",
            f"Launch it with ./millrace trigger {pipeline}, and wait for its first evaluation.",
        )  # fmt: skip
    return newest.time


def _text(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"

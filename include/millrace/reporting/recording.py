"""Read what was recorded of a pipeline: its evaluations, and everything that they were decided by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from millrace.control.guard_context import HELD_FOR, JUDGED_BY
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
        deployments: Deployments of the pipeline by version: those of its evaluations and changes, all later ones, and
            those of the day before.
        changes: Its Reconfigurations, newest first, from the guards' horizon before the first evaluation on.
        others: Deployments of the other pipelines that were the newest at some evaluation, with the time each was made
            (UTC), oldest first.
    """

    pipeline: str
    evaluations: tuple[Decision, ...]
    deployments: Mapping[int, Deployment]
    changes: tuple[Reconfiguration, ...]
    others: tuple[tuple[datetime, Deployment], ...]


class NewestOthers:
    """The newest Deployment of each other pipeline, as time advances.

    Args:
        made: Deployments with the time each was made (UTC), oldest first.
    """

    def __init__(self, made: Sequence[tuple[datetime, Deployment]]) -> None:
        self._made, self._count = made, 0
        self._newest: dict[str, Deployment] = {}

    def at(self, time: datetime) -> Sequence[Deployment]:
        """Return them at a time that is no earlier than the last one."""
        while self._count < len(self._made) and self._made[self._count][0] <= time:
            deployment = self._made[self._count][1]
            self._newest[deployment.pipeline] = deployment
            self._count += 1
        return list(self._newest.values())


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
    newest = _newest_evaluation(tables, pipeline, until)
    recorded = tables.decisions.evaluations(pipeline, newest - DEFAULT_SPAN if since is None else since, until)
    own = _own_deployments(tables, pipeline, recorded)
    evaluations = tuple(evaluation for evaluation in recorded if evaluation.base_version in own)
    if not evaluations:
        raise MillraceError(
            "since", None if since is None else _text(since),
            f"a time up to the last recorded evaluation, {_text(newest)}", "Name an earlier one.",
        )  # fmt: skip
    others = tables.deployments.others_between(pipeline, evaluations[0].time, evaluations[-1].time)
    changes = _changes(tables, pipeline, evaluations[0].time)
    return Recording(pipeline, evaluations, own, tuple(changes), tuple(others))


def _own_deployments(tables: ControlTables, pipeline: str, recorded: Sequence[Decision]) -> dict[int, Deployment]:
    if not recorded:
        return {}
    begin = recorded[0].time
    named: list[int | None] = [evaluation.base_version for evaluation in recorded]
    named += [evaluation.signals.deployment_version for evaluation in recorded if evaluation.signals is not None]
    named += [change.to_version for change in _changes(tables, pipeline, begin)]
    return tables.deployments.since(pipeline, min(filter(None, named), default=0), begin - HELD_FOR)


def _changes(tables: ControlTables, pipeline: str, begin: datetime) -> list[Reconfiguration]:
    """Return what the guards of an evaluation, and of later ones, may look at."""
    return tables.reconfigurations.recent(pipeline, MOST_CHANGES, since=begin - JUDGED_BY)


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

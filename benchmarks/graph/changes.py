"""The changes of slots in a run, and whether what they led to was enough."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from millrace.model.decision import Decision
from millrace.model.deployment import Deployment
from millrace.model.objective import Objective
from millrace.model.signals import AppSignals


@dataclass(frozen=True)
class Version:
    """A version that changed the slots of at least one app.

    Attributes:
        at: When it was made, seconds since 1970.
        slots: Slots by app.
    """

    at: float
    slots: Mapping[str, int]


def resized(versions: Sequence[tuple[float, Deployment]]) -> list[Version]:
    """Return the versions that changed slots, whoever made them: an evaluation, or an agent by its plan.

    Args:
        versions: All versions of a pipeline with their times, oldest first; the first one is its launch.
    """
    slots = [(at, {name: app.slots for name, app in version.apps.items()}) for at, version in versions]
    return [Version(at, now) for (_, before), (at, now) in pairwise(slots) if now != before]


def bad(versions: Sequence[Version], evaluations: Iterable[Decision], changes: Sequence[float]) -> int:
    """Return how many sizes were too small: an app sustained less than arrived, at the rate they were chosen for.

    A version is judged by the last evaluation before the rate or the slots changed again, app by app, if the app had
    settled. While apps catch up, more arrives at the apps that they feed; at the end, only what comes from the head.

    Args:
        versions: See :func:`resized`.
        evaluations: All evaluations of the pipeline, oldest first.
        changes: When the rate changed, seconds since 1970.
    """
    found, measured = 0, [d.signals for d in evaluations if d.signals]
    ends = [*(version.at for version in versions), float("inf")][1:]
    for version, next_at in zip(versions, ends, strict=True):
        end = min([next_at, *(change for change in changes if change > version.at)])
        within = [s for s in measured if version.at <= s.since.timestamp() and s.until.timestamp() <= end]
        last = {app.app: _short(app, signals.objective) for signals in within for app in signals.settled}
        found += any(last.values())
    return found


def _short(app: AppSignals, objective: Objective) -> bool:
    """Return whether an app sustained less than arrived in the period of an evaluation."""
    sustained = app.sustainable(objective)
    return sustained is not None and app.arrival_rows_per_s is not None and sustained < app.arrival_rows_per_s

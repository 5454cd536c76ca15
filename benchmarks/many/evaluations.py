"""When evaluations were due and when their Decisions were committed, read from the lake's logs and rows."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

from millrace.lake.decisions import ID_TIME
from millrace.lake.deployments import TABLE as DEPLOYMENTS
from millrace.lake.log import Commit
from millrace.lake.store import Lake

BATCHES, DECISIONS = "telemetry/batches", "control/decisions"
SILENCE_S = 65.0
"""Time without a commit after which the next commit is due for an evaluation at once, seconds: over a period."""
DECISION = "decision/"
"""What the application transaction of a Decision starts with; its id follows."""


@dataclass(frozen=True)
class Evaluation:
    """One evaluation; times are seconds since 1970.

    Attributes:
        began: When it observed, rounded down to a second.
        recorded: When its Decision was committed.
        read: Version of the telemetry that it read up to.
        action: The Decision's action.
        reason: The Decision's reason code.
    """

    began: float
    recorded: float
    read: int
    action: str
    reason: str


@dataclass(frozen=True)
class History:
    """What happened to one pipeline, oldest first.

    Attributes:
        commits: When it committed telemetry, seconds since 1970, and the version that it made.
        evaluations: Its evaluations.
    """

    commits: Sequence[tuple[float, int]] = ()
    evaluations: Sequence[Evaluation] = ()


@dataclass(frozen=True)
class Wait:
    """From the moment that an evaluation was due to its Decision.

    Attributes:
        due: When it was due, seconds since 1970.
        seconds: Time until its Decision was committed, or until the end of the history if there is none.
        decided: Whether there is a Decision.
    """

    due: float
    seconds: float
    decided: bool


@dataclass
class _Found:
    commits: list[tuple[float, int]] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)


def histories(lake: Lake, pipelines: Sequence[str]) -> dict[str, History]:
    """Return the telemetry commits and evaluations of each pipeline.

    Raises:
        MillraceError: If the lake cannot be read.
    """
    found = {name: _Found() for name in pipelines}
    for time, commit in _additions(lake, BATCHES):
        for name in {file.partition.get("pipeline") for file in commit.added}:
            if name in found:
                found[name].commits.append((time, commit.version))
    recorded = {
        transaction.removeprefix(DECISION): time
        for time, commit in _additions(lake, DECISIONS)
        for transaction in commit.transactions
        if transaction.startswith(DECISION)
    }
    columns = "pipeline, decision_id, action, reason_code, cursor_version"
    sql = f"select {columns} from decisions where cursor_version is not null order by time"  # noqa: S608 - constant
    for row in lake.rows(sql, DECISIONS) if lake.exists(DECISIONS) else ():
        if row["pipeline"] in found and row["decision_id"] in recorded:
            evaluation = Evaluation(
                began=_began(row["decision_id"]),
                recorded=recorded[row["decision_id"]],
                read=row["cursor_version"],
                action=row["action"],
                reason=row["reason_code"],
            )
            found[row["pipeline"]].evaluations.append(evaluation)
    return {name: History(sorted(f.commits), f.evaluations) for name, f in found.items()}


def _began(decision_id: str) -> float:
    """Return when the evaluation of a Decision observed: its time is that of the Decision, its id that of the data."""
    return datetime.strptime(decision_id.partition("-")[0], ID_TIME).replace(tzinfo=UTC).timestamp()


def _additions(lake: Lake, table: str) -> Iterator[tuple[float, Commit]]:
    """Yield the commits of a table that added rows, each with its time, seconds since 1970."""
    log = lake.log(table)
    for version in sorted(log.versions()[0]):
        commit = log.commit(version)
        if commit is not None and commit.time is not None and commit.added:
            yield commit.time.timestamp(), commit


def waits(history: History, period_s: float, end: float) -> list[Wait]:
    """Return how long each evaluation after the first took from when it was due.

    It is due a period after the previous evaluation, or at the first telemetry commit after that one if it is later.
    An evaluation that starts before it is due counts from its start.

    Args:
        history: The pipeline's history.
        period_s: Shortest time between two evaluations, seconds.
        end: Until when the history is known, seconds since 1970.
    """
    found = []
    evaluations, commits = history.evaluations, [time for time, _ in history.commits]
    for place, previous in enumerate(evaluations):
        after = bisect_right(commits, previous.began)
        if after == len(commits):
            continue
        due = max(previous.began + period_s, commits[after])
        if place + 1 < len(evaluations):
            following = evaluations[place + 1]
            due = min(due, following.began)
            found.append(Wait(due, following.recorded - due, True))
        elif due < end:
            found.append(Wait(due, end - due, False))
    return found


def answers(history: History, end: float) -> list[Wait]:
    """Return how long each telemetry commit after a long silence waited for a Decision on it.

    Nothing else shows when an evaluation was due. Usually it is due a period after the previous one was, and a delay
    that is the same for both cannot be seen in the lake. After the silence it is due at the commit.

    Args:
        history: The pipeline's history.
        end: Until when the history is known, seconds since 1970.
    """
    found = []
    for (before, _), (commit, version) in pairwise(history.commits):
        if commit - before >= SILENCE_S:
            recorded = [e.recorded for e in history.evaluations if e.read >= version]
            found.append(Wait(commit, min(recorded, default=end) - commit, bool(recorded)))
    return found


def reads(history: History, begin: float, end: float) -> list[float]:
    """Return the times from the start of each evaluation between two moments to its Decision, seconds."""
    return [e.recorded - e.began for e in history.evaluations if begin <= e.recorded < end]


def reasons(found: Mapping[str, History], begin: float, end: float) -> Counter[str]:
    """Return how often each reason code was recorded between two moments, by ``action: reason``."""
    return Counter(
        f"{e.action}: {e.reason}" for h in found.values() for e in h.evaluations if begin <= e.recorded < end
    )


def changed_slots(lake: Lake, begin: float, end: float) -> int:
    """Return how many Deployments were committed between two moments, seconds since 1970."""
    rows = lake.rows("select time from deployments", DEPLOYMENTS)
    return sum(begin <= row["time"].timestamp() < end for row in rows)

"""Numbered Deployments: two writers can never make the same version or take the same free slots.

A commit carries Delta transactions. Delta grants each of them to one writer only, across processes and hosts:

- ``deployment/<pipeline>``: the version.
- ``decision/<id>``: a Decision becomes one version, or none once it is ruled out.
- ``slots``: one more with every commit that raises a pipeline's slots. A writer that checked its slots earlier must
  read and check again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from millrace.lake.store import Lake, Position, literal
from millrace.model.codec import from_json, to_json
from millrace.model.deployment import Deployment
from millrace.model.errors import Conflict

TABLE = "control/deployments"
SLOTS = "slots"
MOST_ATTEMPTS = 100
"""An attempt is lost to another writer's commit only, so this many fail where a hundred others got through first."""
OUTRUN = f"{MOST_ATTEMPTS} other changes were committed first; try again"


@dataclass(frozen=True)
class SlotsInUse:
    """The newest Deployments of all pipelines, against which a change of slots is checked.

    Attributes:
        raises: How often any pipeline's slots had been raised before the Deployments were read.
        deployments: Each pipeline's newest version.
    """

    raises: int
    deployments: tuple[Deployment, ...]

    def latest(self, pipeline: str) -> Deployment | None:
        """Return a pipeline's newest version; None before its first launch."""
        return next((d for d in self.deployments if d.pipeline == pipeline), None)

    def others(self, pipeline: str) -> tuple[Deployment, ...]:
        """Return the newest versions of the other pipelines."""
        return tuple(d for d in self.deployments if d.pipeline != pipeline)

    def left(self, pipeline: str, quota: int) -> int:
        """Return the most slots that a pipeline may have under a quota; it may keep its present slots."""
        latest = self.latest(pipeline)
        return slots_left(quota, latest.slots if latest else 0, slots_elsewhere(pipeline, self.deployments))


def slots_elsewhere(pipeline: str, deployments: Iterable[Deployment]) -> int:
    """Return the slots that pipelines other than ``pipeline`` hold."""
    return sum(d.slots for d in deployments if d.pipeline != pipeline)


def slots_left(quota: int, held: int, elsewhere: int) -> int:
    """Return the maximum slots of a pipeline; it may keep the slots that it holds.

    Args:
        quota: Slots of all pipelines together.
        held: Slots of the pipeline's newest version.
        elsewhere: Slots of the other pipelines.
    """
    return max(quota - elsewhere, held)


@dataclass(frozen=True)
class DeploymentStore:
    """Deployments of all pipelines in ``control/deployments``."""

    lake: Lake

    def latest(self, pipeline: str) -> Deployment | None:
        """Return the newest version of a pipeline; None before its first launch."""
        return self._one(f"pipeline = {literal(pipeline)} order by version desc limit 1")

    def get(self, pipeline: str, version: int) -> Deployment | None:
        """Return one version of a pipeline."""
        return self._one(f"pipeline = {literal(pipeline)} and version = {literal(version)}")

    def committed_at(self, pipeline: str, version: int) -> datetime | None:
        """Return when a version was made (UTC); None if there is no such version."""
        where = f"pipeline = {literal(pipeline)} and version = {literal(version)}"
        rows = self.lake.rows(f"select time from deployments where {where}", TABLE)  # noqa: S608 - literal()
        return rows[0]["time"] if rows else None

    def made_by(self, pipeline: str, decision_id: str) -> Deployment | None:
        """Return the version that a Decision became; None if it never did."""
        return self._one(f"pipeline = {literal(pipeline)} and decision_id = {literal(decision_id)}")

    def made_by_author(self, pipeline: str, author: str, since: datetime, limit: int) -> list[str]:
        """Return the Decisions behind an author's newest versions of a pipeline since a time (UTC), newest first."""
        where = f"pipeline = {literal(pipeline)} and author = {literal(author)} and time >= {literal(since)}"
        sql = f"select decision_id from deployments where {where} order by version desc limit {int(limit)}"  # noqa: S608 - literal()
        return [row["decision_id"] for row in self.lake.rows(sql, TABLE) if row["decision_id"]]

    def all_latest(self) -> list[Deployment]:
        """Return every pipeline's newest version, by name."""
        sql = """
            select content from (
                select pipeline, content, row_number() over (partition by pipeline order by version desc) as age
                from deployments
            ) where age = 1 order by pipeline
        """
        return [from_json(Deployment, row["content"]) for row in self.lake.rows(sql, TABLE)]

    def since(self, pipeline: str, version: int, time: datetime) -> dict[int, Deployment]:
        """Return a pipeline's versions from a number on, and earlier ones made at a time (UTC) or later, by number."""
        where = f"pipeline = {literal(pipeline)} and (version >= {literal(version)} or time >= {literal(time)})"
        sql = f"select version, content from deployments where {where}"  # noqa: S608 - values pass through literal()
        return {row["version"]: from_json(Deployment, row["content"]) for row in self.lake.rows(sql, TABLE)}

    def others_between(self, pipeline: str, since: datetime, until: datetime) -> list[tuple[datetime, Deployment]]:
        """Return the versions of other pipelines that were the newest at some time of a span, oldest first.

        Args:
            pipeline: Name of the pipeline that is left out.
            since: Start of the span (UTC).
            until: End of the span (UTC).
        """
        sql = f"""
            select time, content from (
                select time, version, content, lead(time) over (partition by pipeline order by version) as replaced
                from deployments where pipeline <> {literal(pipeline)}
            ) where time <= {literal(until)} and (replaced is null or replaced > {literal(since)})
            order by time, version
        """  # noqa: S608 - values pass through literal()
        return [(row["time"], from_json(Deployment, row["content"])) for row in self.lake.rows(sql, TABLE)]

    def versions(self, pipeline: str, limit: int) -> list[tuple[datetime, Deployment]]:
        """Return the newest versions of a pipeline and when each was made (UTC), newest first."""
        where = f"pipeline = {literal(pipeline)} order by version desc limit {int(limit)}"
        rows = self.lake.rows(f"select time, content from deployments where {where}", TABLE)  # noqa: S608 - literal()
        return [(row["time"], from_json(Deployment, row["content"])) for row in rows]

    def slots_in_use(self) -> SlotsInUse:
        """Return the slots in use, to check a commit that may raise slots."""
        raises = max(
            0, self.lake.committed(TABLE, SLOTS)
        )  # before the rows: a raise in between is then detected at commit
        return SlotsInUse(raises, tuple(self.all_latest()))

    def attempts(self) -> Iterator[SlotsInUse]:
        """Yield the slots in use for each of :data:`MOST_ATTEMPTS` attempts at a commit, read again each time."""
        for _ in range(MOST_ATTEMPTS):
            yield self.slots_in_use()

    def commit(self, content: Deployment, base_version: int | None, in_use: SlotsInUse | None = None) -> Deployment:
        """Store ``content`` as the version after ``base_version`` and return it with its number.

        Args:
            content: The desired state; its own version is ignored.
            base_version: The version on which it was decided; None for the first.
            in_use: Slots in use against which it was checked; None if no quota applies.

        Raises:
            Conflict: If ``base_version`` is no longer the newest; if the content raises its slots and another commit
                has raised slots since ``in_use`` was read; or if its Decision has become a version or was ruled out.
        """
        in_use = in_use or self.slots_in_use()
        latest = in_use.latest(content.pipeline)
        version = (base_version or 0) + 1
        if version != (latest.version if latest else 0) + 1:
            raise Conflict(f"{content.pipeline}: version {version} does not follow the newest version")
        numbered = replace(content, version=version)
        row = {
            "pipeline": numbered.pipeline,
            "time": datetime.now(UTC),
            "version": version,
            "content": to_json(numbered),
            "decision_id": numbered.decision_id,
            "author": numbered.author,
        }
        transactions = {f"deployment/{numbered.pipeline}": version}
        if numbered.decision_id is not None:
            transactions[_decision(numbered.decision_id)] = 1
        if numbered.slots > (latest.slots if latest else 0):
            transactions[SLOTS] = in_use.raises + 1
        if self.lake.append(TABLE, [row], transactions) is None:
            raise Conflict(f"{numbered.pipeline}: one of {transactions} was committed already")
        return numbered

    def rule_out(self, pipeline: str, decision_id: str) -> Deployment | None:
        """Make sure that a Decision never becomes a version; return the version if it already has."""
        with suppress(Conflict):  # another writer has ruled it out too, or made the version that is returned
            self.lake.append(TABLE, [], {_decision(decision_id): 1})
        return self.made_by(pipeline, decision_id)

    def is_settled(self, decision_id: str) -> bool:
        """Return whether a Decision has become a version or was ruled out."""
        return self.lake.committed(TABLE, _decision(decision_id)) > 0

    def _one(self, where: str) -> Deployment | None:
        sql = f"select content from deployments where {where}"  # noqa: S608 - values pass through literal()
        rows = self.lake.rows(sql, TABLE)
        return from_json(Deployment, rows[0]["content"]) if rows else None


@dataclass
class DeploymentFollower:
    """Reads a pipeline's newest Deployment repeatedly. Without a new commit, it only checks the table's log.

    Attributes:
        lake: The lake.
        pipeline: Name of the pipeline.
    """

    lake: Lake
    pipeline: str
    _position: Position = (0, -1)
    _newest: Deployment | None = None

    def read(self) -> Deployment | None:
        """Return the newest version; None before the first launch.

        Raises:
            MillraceError: If the lake cannot be read.
        """
        position = self.lake.position(TABLE)
        if position != self._position:
            self._newest, self._position = DeploymentStore(self.lake).latest(self.pipeline), position
        return self._newest


def _decision(decision_id: str) -> str:
    return f"decision/{decision_id}"

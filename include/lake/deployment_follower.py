"""The newest Deployment of a pipeline, for processes that follow it while it changes: jobs and feeds."""

from __future__ import annotations

from dataclasses import dataclass, field

from include.lake.store import Lake, literal
from include.model.codec import from_json
from include.model.deployment import Deployment

TABLE = "control/deployments"


def newest(lake: Lake, pipeline: str) -> Deployment | None:
    """Return the newest version of a pipeline, None before its first launch.

    Raises:
        MillraceError: If the lake cannot be read.
    """
    where = f"pipeline = {literal(pipeline)} order by version desc limit 1"
    rows = lake.rows(f"select content from deployments where {where}", TABLE)  # noqa: S608 - literal()
    return from_json(Deployment, rows[0]["content"]) if rows else None


@dataclass
class FollowedDeployment:
    """Reads a pipeline's Deployments as they come; while there is no new one, only the table's log is looked at.

    Attributes:
        lake: Where they are.
        pipeline: Whose.
    """

    lake: Lake
    pipeline: str
    _version: int = -1
    _newest: Deployment | None = field(default=None)

    def read(self) -> Deployment | None:
        """Return the newest version, None before the first launch.

        Raises:
            MillraceError: If the lake cannot be read.
        """
        version = self.lake.version(TABLE)
        if version != self._version:
            self._newest, self._version = newest(self.lake, self.pipeline), version
        return self._newest

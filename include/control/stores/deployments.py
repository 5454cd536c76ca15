"""Numbered Deployments: two writers can never both make the same version."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from include.contracts.codec import from_json, to_json
from include.contracts.deployment import Deployment
from include.contracts.errors import Conflict
from include.lake.deployments import TABLE, newest
from include.lake.store import Lake, literal


@dataclass(frozen=True)
class DeploymentStore:
    """Deployments of all pipelines in ``control/deployments``."""

    lake: Lake

    def latest(self, pipeline: str) -> Deployment | None:
        """Return the newest version of a pipeline, None before its first launch."""
        return newest(self.lake, pipeline)

    def get(self, pipeline: str, version: int) -> Deployment | None:
        """Return one version of a pipeline."""
        return self._one(f"pipeline = {literal(pipeline)} and version = {literal(version)}")

    def made_by(self, pipeline: str, decision_id: str) -> Deployment | None:
        """Return the version that a Decision became, None if it never did."""
        return self._one(f"pipeline = {literal(pipeline)} and decision_id = {literal(decision_id)}")

    def all_latest(self) -> list[Deployment]:
        """Return every pipeline's newest version."""
        names = self.lake.rows("select distinct pipeline from deployments order by pipeline", TABLE)
        return [d for d in (self.latest(row["pipeline"]) for row in names) if d is not None]

    def history(self) -> list[tuple[datetime, Deployment]]:
        """Return every version of every pipeline with the time at which it was made (UTC), oldest first."""
        rows = self.lake.rows("select time, content from deployments order by time, version", TABLE)
        return [(row["time"], from_json(Deployment, row["content"])) for row in rows]

    def commit(self, content: Deployment, base_version: int | None) -> Deployment:
        """Store ``content`` as the version after ``base_version`` and return it numbered.

        Args:
            content: The desired state; its own version is ignored.
            base_version: The version it was decided on; None for the first.

        Raises:
            Conflict: If the pipeline has moved on from ``base_version``.
        """
        version = (base_version or 0) + 1
        numbered = replace(content, version=version)
        row = {
            "pipeline": numbered.pipeline,
            "time": datetime.now(UTC),
            "version": version,
            "content": to_json(numbered),
            "decision_id": numbered.decision_id,
            "author": numbered.author,
        }
        if self.lake.append(TABLE, [row], {f"deployment/{numbered.pipeline}": version}) is None:
            raise Conflict(f"{numbered.pipeline}: version {version} exists already")
        return numbered

    def _one(self, where: str) -> Deployment | None:
        sql = f"select content from deployments where {where}"  # noqa: S608 - values pass through literal()
        rows = self.lake.rows(sql, TABLE)
        return from_json(Deployment, rows[0]["content"]) if rows else None

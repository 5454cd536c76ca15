"""Where a pipeline's newest Deployment wants each stream to enter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from include.contracts.codec import from_json
from include.contracts.deployment import Deployment
from include.lake.store import Lake, literal

TABLE = "control/deployments"


@dataclass
class Wishes:
    """Reads Deployments as they come.

    Attributes:
        lake: Where they are.
        pipeline: Whose.
    """

    lake: Lake
    pipeline: str
    _version: int = -1
    _ingest: Mapping[str, int] = field(default_factory=dict)

    def read(self) -> Mapping[str, int]:
        """Return the number of the ingest table of each stream; empty before the first Deployment.

        Raises:
            MillraceError: If the lake cannot be read.
        """
        version = self.lake.version(TABLE)
        if version != self._version:
            newest = f"pipeline = {literal(self.pipeline)} order by version desc limit 1"
            rows = self.lake.rows(f"select content from deployments where {newest}", TABLE)  # noqa: S608 - literal()
            self._ingest = from_json(Deployment, rows[0]["content"]).ingest if rows else {}
            self._version = version
        return self._ingest

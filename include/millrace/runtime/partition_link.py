"""A driver's link for queries that spread rows by key: deployed maps come in, samples of keys go out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from millrace.lake.deployments import DeploymentFollower
from millrace.lake.store import Lake
from millrace.model.key_map import HotKey, KeyMap, KeySample
from millrace.run_folder.arguments import DriverArguments


class PartitionLink:
    """Follows the pipeline's Deployments; nothing is read before a query asks.

    Args:
        arguments: The driver's arguments.
        record: Takes the samples.
    """

    def __init__(self, arguments: DriverArguments, record: Callable[[KeySample], None]) -> None:
        self._arguments, self._record = arguments, record
        self._followed = DeploymentFollower(Lake(arguments.lake), arguments.pipeline)

    def newest(self, name: str) -> tuple[KeyMap | None, int | None]:
        """Return the deployed map of a name, and the app's slots; None for what is not there.

        Raises:
            MillraceError: If the lake cannot be read.
        """
        newest = self._followed.read()
        if newest is None:
            return None, None
        app = newest.apps.get(self._arguments.app)
        return newest.partitioning.get(name), None if app is None else app.slots

    def report(
        self,
        name: str,
        columns: Sequence[str],
        workers: int,
        revision: int | None,
        rows: int,
        hot: Sequence[HotKey],
    ) -> None:
        """Record a sample of keys; returns at once."""
        a, now = self._arguments, datetime.now(UTC)
        sample = KeySample(
            a.pipeline, a.app, a.generation, now, name, tuple(columns), workers, revision, rows, tuple(hot)
        )
        self._record(sample)

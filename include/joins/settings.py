"""How a join is to be set, as its pipeline's newest Deployment says."""

from __future__ import annotations

import logging

from include.lake.deployments import DeploymentFollower
from include.lake.store import Lake
from include.model.errors import MillraceError
from include.model.join import JoinSettings

LOG = logging.getLogger(__name__)


class DeployedSettings:
    """Follows a pipeline's Deployments; what was read last holds while there is none or the lake cannot be read.

    Args:
        lake: Where they are.
        pipeline: Whose.
        first: What holds until one was read.
    """

    def __init__(self, lake: Lake, pipeline: str, first: JoinSettings) -> None:
        self._followed, self._last = DeploymentFollower(lake, pipeline), first

    def __call__(self) -> JoinSettings:
        """Return the settings."""
        try:
            newest = self._followed.read()
        except MillraceError as error:
            LOG.warning("The join stays as it is set: %s", error)
            return self._last
        if newest is not None and newest.join is not None:
            self._last = newest.join
        return self._last

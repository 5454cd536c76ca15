"""Whether a pipeline's newest version was given up: its driver failed, and nothing has taken its place."""

from __future__ import annotations

from include.lake.reconfigurations import ReconfigurationStore
from include.lake.store import Lake
from include.model.decision import Outcome, Reconfiguration
from include.model.deployment import Deployment

BROKEN = {Outcome.FAILED: "driver_failed", Outcome.CIRCUIT_OPEN: "circuit_open"}
"""Outcomes that leave a pipeline without a driver, with the reason code of a look that finds it so."""


def given_up(lake: Lake, current: Deployment) -> Reconfiguration | None:
    """Return the newest Reconfiguration if the newest Deployment ended in it; None if it runs, or was not tried yet."""
    last = next(iter(ReconfigurationStore(lake).recent(current.pipeline, 1)), None)
    broken = last is not None and last.outcome in BROKEN and (last.to_version or 0) >= current.version
    return last if broken else None

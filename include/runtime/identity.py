"""Which app this Spark driver is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AppIdentity:
    """One generation of one app, as its telemetry names it.

    Attributes:
        pipeline: Name of the pipeline.
        app: Name of the app.
        generation: Start number of the driver, >= 1.
        version: The Deployment version it runs, >= 1.
        slots: Its cores, >= 1.
        epoch: Checkpoint epoch, >= 0.
    """

    pipeline: str
    app: str
    generation: int
    version: int
    slots: int
    epoch: int = 0

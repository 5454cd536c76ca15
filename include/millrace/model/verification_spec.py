"""The section ``verification`` of a pipeline spec: when changes that miss their prediction are rolled back."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from millrace.model.spec_base import Strict

WINDOW_BATCHES = 5
"""Batches after a change that its window covers at least: the first does not count, and two show that it settled."""


class Verification(Strict):
    """When Millrace rolls back its own change."""

    window_s: Annotated[float, Field(ge=0, le=3600)] = Field(
        600.0,
        description="Time after a change in which it may be rolled back, seconds; at least five trigger intervals; 0 "
        "never rolls back",
    )
    least_gain: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5, description="Least share of the predicted gain that more slots, or another placement, must bring"
    )
    deaths: Annotated[int, Field(ge=2)] = Field(2, description="Deaths of drivers, or of executors, that undo a change")
    load_change: Annotated[float, Field(gt=0, le=10)] = Field(
        0.25,
        description="Retry a rolled-back change once arrival has left the range in which it failed by this share",
    )

    def with_trigger(self, interval_s: float) -> Verification:
        """Return a copy whose window is long enough for a query that runs once per interval."""
        if self.window_s == 0:
            return self
        return self.model_copy(update={"window_s": max(self.window_s, WINDOW_BATCHES * interval_s)})

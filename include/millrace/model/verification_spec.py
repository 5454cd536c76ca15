"""What a spec says of changes that miss what was predicted of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from millrace.model.spec_base import Strict

WINDOW_BATCHES = 5
"""Batches after a change that its window covers at least: the first does not count, and two settle it."""


class Verification(Strict):
    """When a change that Millrace made is rolled back."""

    window_s: Annotated[float, Field(ge=0, le=3600)] = Field(
        600.0,
        description="Time after a change in which it may be rolled back, seconds, at least five trigger intervals; "
        "0 never rolls back",
    )
    least_gain: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5, description="Least share of what more slots, or another placement, were to bring"
    )
    deaths: Annotated[int, Field(ge=2)] = Field(2, description="Drivers, or executors, whose deaths undo a change")
    load_change: Annotated[float, Field(gt=0, le=10)] = Field(
        0.25,
        description="Share by which arrival has to leave the range in which a change missed until it is tried again",
    )

    def with_trigger(self, interval_s: float) -> Verification:
        """Return the same with a window that is long enough for a query that runs once per interval."""
        if self.window_s == 0:
            return self
        return self.model_copy(update={"window_s": max(self.window_s, WINDOW_BATCHES * interval_s)})

"""Metadata that a user may declare about a stream before it is connected: Figure 4's ten characteristics.

A cycle begins with the rise: over ``slope_duration`` periods with ``transition: trend``, at once with ``jump``. Then
the stream is high until ``high_duration`` periods after the rise began, falls in the same way, and is low for the rest
of ``low_duration``, counted from the start of the fall. ``phase`` is the period in which a rise begins.

Reference: [DRFM] Section 2.4, Figure 4. The figure is not in the text: the names of the ten are ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from millrace.optimizers.api import MillraceError, Options

AGREES = 1e-6
"""Relative difference up to which two declarations of one thing agree."""


class Metadata(Options):
    """A stream's declared characteristics; None for undeclared ones, unless they follow from the rest.

    Attributes:
        minimum: Lowest rate, >= 0.
        maximum: Highest rate, >= ``minimum``.
        average: Mean rate, between the two.
        high_duration: Periods from the start of a rise to the start of the fall, > 0.
        low_duration: Periods from the start of a fall to the start of the rise, > 0.
        period: Periods of a cycle: the two together, > 0.
        phase: Period in which a rise begins, >= 0.
        transition: ``jump`` or ``trend``.
        slope_duration: Periods that a trend takes from one level to the other, > 0, within both durations.
        slope: The same as change of the rate per period, > 0.
        lifetime: Periods from joining to leaving, > 0.

    Raises:
        MillraceError: If a value is out of range or contradicts another.
    """

    section: ClassVar[str] = "admission.streams"

    minimum: float | None = Field(None, ge=0)
    maximum: float | None = Field(None, ge=0)
    average: float | None = Field(None, ge=0)
    high_duration: float | None = Field(None, gt=0)
    low_duration: float | None = Field(None, gt=0)
    period: float | None = Field(None, gt=0)
    phase: float | None = Field(None, ge=0)
    transition: Literal["jump", "trend"] | None = None
    slope_duration: float | None = Field(None, gt=0)
    slope: float | None = Field(None, gt=0)
    lifetime: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        self._check_levels()
        self._complete_cycle()
        self._complete_ramp()
        return self

    def _check_levels(self) -> None:
        low, high, mean = self.minimum, self.maximum, self.average
        if low is not None and high is not None and low > high:
            raise _contradiction("maximum", high, f">= the minimum, {low:g}")
        if mean is not None and not (low or 0.0) <= mean <= (math.inf if high is None else high):
            raise _contradiction("average", mean, "between minimum and maximum")

    def _complete_cycle(self) -> None:
        high, low, period = self.high_duration, self.low_duration, self.period
        if high is not None and low is not None:
            if period is not None and not math.isclose(period, high + low, rel_tol=AGREES):
                raise _contradiction("period", period, f"high and low duration together, {high + low:g}")
            object.__setattr__(self, "period", high + low)
        elif period is not None:
            part = high if high is not None else low
            if part is not None and part >= period:
                raise _contradiction("period", period, f"> {part:g}, the duration of a part")
            if high is not None:
                object.__setattr__(self, "low_duration", period - high)
            elif low is not None:
                object.__setattr__(self, "high_duration", period - low)

    def _complete_ramp(self) -> None:
        ramp = self.slope_duration
        if self.slope is not None and self.minimum is not None and self.maximum is not None:
            given, ramp = ramp, (self.maximum - self.minimum) / self.slope
            if given is not None and not math.isclose(given, ramp, rel_tol=AGREES):
                raise _contradiction("slope_duration", given, f"{ramp:g}, from the slope")
            object.__setattr__(self, "slope_duration", ramp)
        if ramp is None:
            return
        if self.transition == "jump":
            raise _contradiction("slope_duration", ramp, "nothing with transition jump")
        shortest = min(x for x in (self.high_duration, self.low_duration, math.inf) if x is not None)
        if ramp > shortest:
            raise _contradiction("slope_duration", ramp, f"<= {shortest:g}, the shorter part of the cycle")
        object.__setattr__(self, "transition", "trend")


def read_streams(streams: Mapping[str, Any]) -> dict[str, Metadata]:
    """Return the metadata of streams by their ids.

    Raises:
        MillraceError: If a name is unknown, or a value is out of range or contradicts another; it names the stream.
    """
    metadata = {}
    for stream, given in streams.items():
        try:
            metadata[stream] = Metadata.read(given)
        except MillraceError as error:
            name = error.key.removeprefix(Metadata.section)
            key = f"{Metadata.section}.{stream}{name}"
            raise MillraceError(key, error.value, error.allowed, error.remedy) from error
    return metadata


def _contradiction(name: str, value: object, allowed: str) -> MillraceError:
    return MillraceError(
        f"{Metadata.section}.{name}", value, allowed, "Correct the one that is wrong, or leave it out."
    )

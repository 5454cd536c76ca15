"""The section ``admission`` of a spec: capacity of an ingest node, how streams are assigned, how rates are forecast."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from millrace.optimizers.api import FromList, MillraceError, Options
from millrace.optimizers.drfm.forecasters import Best, Forecaster, Holt, Seasonal
from millrace.optimizers.drfm.horizon import plan
from millrace.optimizers.drfm.metadata import Metadata, read_streams
from millrace.optimizers.drfm.paper.strategies import STRATEGIES, StrategyOptions
from millrace.optimizers.drfm.problem import Planner
from millrace.optimizers.drfm.rate_forecaster import ForecastOptions, RateForecaster
from millrace.optimizers.drfm.sizing import WorkerCosts
from millrace.optimizers.drfm.stream_placement import HorizonOptions

Method = Literal["horizon", "par", "ari", "ard", "drf", "drfm"]
WITH_METADATA = ("horizon", "drfm")
"""Methods that use metadata."""
RATES = ("minimum", "maximum", "average", "slope")
"""Characteristics that are rates."""


class MethodOptions(ForecastOptions):
    """Options common to all methods; ``season`` excludes the other three options of a forecaster.

    Attributes:
        method: ``horizon`` is ours; ``par``, ``ari``, ``ard``, ``drf`` and ``drfm`` are the paper's.
        quiet: Periods without a row after which a stream counts as gone, >= 1.
        season: Periods after which rates repeat, >= 1: forecast by :class:`Seasonal`.
        alpha: Weight of a new rate, [0, 1]: forecast by :class:`Holt`.
        gamma: Weight of a new slope, [0, 1]; as above.
        damping: The part of a trend that is left a period later, [0, 1]; as above.
    """

    method: Method = "horizon"
    quiet: int = Field(192, ge=1)
    season: int | None = Field(None, ge=1)
    alpha: float | None = Field(None, ge=0, le=1)
    gamma: float | None = Field(None, ge=0, le=1)
    damping: float | None = Field(None, ge=0, le=1)

    @model_validator(mode="after")
    def _check_forecaster(self) -> Self:
        if self.season is not None and self._holt:
            name, value = next(iter(self._holt.items()))
            remedy = "Leave out one of the two."
            raise MillraceError(f"{self.section}.{name}", value, "no other option with season", remedy)
        return self

    @property
    def _holt(self) -> dict[str, float]:
        return self.model_dump(include=set(Holt.model_fields), exclude_none=True)

    @property
    def forecaster(self) -> Forecaster:
        """Forecaster of streams whose cycle is unknown; the paper's methods use Holt's model."""
        if self.season is not None:
            return Seasonal(season=self.season)
        return Holt(**self._holt) if self._holt or self.method != "horizon" else Best()


class HorizonMethodOptions(HorizonOptions, MethodOptions):
    """Options of ``horizon``."""


class PaperMethodOptions(StrategyOptions, MethodOptions):
    """Options of the paper's methods, which only use declared characteristics unless ``learns`` is set."""

    learns: bool = False


class AdmissionPolicy(Options):
    """How streams are admitted.

    Attributes:
        capacity: Rate at which an ingest node is always busy, rows per second of event time, > 0.
        ingest: Names of the ingest tables between which a feed redirects its streams; none if plans are advice.
        streams: Declared metadata by stream; rates in rows per second, durations in periods.
        sizing: Costs of the workers downstream; None to size none.
        options: The method's.
    """

    section: ClassVar[str] = "admission"

    capacity: float = Field(gt=0)
    ingest: Annotated[tuple[str, ...], FromList] = Field((), description="a list of ingest tables")
    streams: dict[str, Metadata] = Field(default_factory=dict)
    sizing: WorkerCosts | None = Field(None, strict=False)
    options: HorizonMethodOptions | PaperMethodOptions = Field(default_factory=HorizonMethodOptions)

    @field_validator("streams", mode="before")
    @classmethod
    def _read_streams(cls, given: Any) -> Any:
        return read_streams(given) if isinstance(given, Mapping) else given

    @field_validator("options", mode="before")
    @classmethod
    def _read_options(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return (PaperMethodOptions if given.get("method") in list(STRATEGIES) else HorizonMethodOptions).read(given)

    @model_validator(mode="after")
    def _check_rates(self) -> Self:
        for stream, metadata in self.streams.items():
            for name in ("minimum", "average", "maximum"):
                rate = getattr(metadata, name)
                if rate is not None and rate > self.usable:
                    allowed = f"<= {self.usable:g}, the usable capacity of a node"
                    remedy = "Divide the stream, raise admission.capacity, or leave the value out."
                    raise MillraceError(f"{metadata.section}.{stream}.{name}", rate, allowed, remedy)
        return self

    @property
    def usable(self) -> float:
        """Rate up to which streams may fill a node: all of its capacity, or the part that sizing leaves."""
        return self.capacity if self.sizing is None else self.capacity * self.sizing.busy_ratio

    def planner(self) -> Planner:
        """Return the function that assigns streams."""
        if isinstance(self.options, HorizonOptions):
            return partial(plan, options=self.options)
        return STRATEGIES[self.options.method](self.options).plan

    def rate_forecaster(self, period_s: int) -> RateForecaster:
        """Return the forecaster of the streams, whose rates are rows per period.

        Args:
            period_s: Length of a period, seconds.
        """
        used = self.streams if self.options.method in WITH_METADATA else {}
        metadata = {stream: _per_period(m, period_s) for stream, m in used.items()}
        return RateForecaster(self.usable * period_s, metadata, self.options.forecaster, self.options)


def _per_period(metadata: Metadata, period_s: int) -> Metadata:
    """Return metadata with rates per period in place of rates per second."""
    rates = metadata.model_dump(include=set(RATES), exclude_none=True)
    return metadata.model_copy(update={name: rate * period_s for name, rate in rates.items()})

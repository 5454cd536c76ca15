"""The section ``admission`` of a spec: capacity of an ingest node, how streams are assigned, how rates are forecast."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from millrace.model.admission import LoadUnit, StreamCounts
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
        capacity: Rate at which an ingest node is always busy, rows per second of event time, > 0; None if loads are
            measured in slots.
        ingest: Names of the ingest tables of a feed, or of the nodes of a fleet, between which streams are redirected;
            none if plans are advice.
        streams: Declared metadata by stream; rates in rows per second, durations in periods.
        sizing: Costs of the workers downstream; None to size none.
        options: The method's.
    """

    section: ClassVar[str] = "admission"

    capacity: float | None = Field(None, gt=0)
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
    def _check_capacity(self) -> Self:
        if self.capacity is None and not self.ingest:
            raise _no_capacity()
        return self

    @model_validator(mode="after")
    def _check_rates(self) -> Self:
        usable = self.usable
        for stream, metadata in self.streams.items():
            for name in RATES if usable is None else ("minimum", "average", "maximum"):
                rate, key = getattr(metadata, name), f"{metadata.section}.{stream}.{name}"
                if rate is not None and usable is None:
                    remedy = "Leave the value out, or set admission.capacity."
                    raise MillraceError(key, rate, "no rate in rows/s if loads are measured in slots", remedy)
                if rate is not None and usable is not None and rate > usable:
                    allowed = f"<= {usable:g}, the usable capacity of a node"
                    remedy = "Divide the stream, raise admission.capacity, or leave the value out."
                    raise MillraceError(key, rate, allowed, remedy)
        return self

    @property
    def busy_ratio(self) -> float:
        """Share of a node that streams may fill: all of it, or the part that sizing leaves, (0, 1]."""
        return 1.0 if self.sizing is None else self.sizing.busy_ratio

    @property
    def usable(self) -> float | None:
        """Rows per second up to which streams may fill a node; None if loads are measured in slots."""
        return None if self.capacity is None else self.capacity * self.busy_ratio

    def node_load(self, counts: StreamCounts) -> float:
        """Return the load up to which streams may fill a node, in the unit of the counts.

        Raises:
            MillraceError: If rows are counted, and nothing says how many a node takes.
        """
        if counts.unit is LoadUnit.SLOTS:
            return counts.slots * min(counts.utilisation, self.busy_ratio)
        if self.usable is None:
            raise _no_capacity()
        return self.usable

    def planner(self) -> Planner:
        """Return the function that assigns streams."""
        if isinstance(self.options, HorizonOptions):
            return partial(plan, options=self.options)
        return STRATEGIES[self.options.method](self.options).plan

    def rate_forecaster(self, counts: StreamCounts) -> RateForecaster:
        """Return the forecaster of the streams, whose rates are counts per period.

        Args:
            counts: The counts that it will observe.

        Raises:
            MillraceError: If nothing says how much a node takes.
        """
        used = self.streams if self.options.method in WITH_METADATA else {}
        metadata = {stream: _per_period(m, counts.period_s) for stream, m in used.items()}
        capacity = self.node_load(counts) * counts.unit.counts * counts.period_s
        return RateForecaster(capacity, metadata, self.options.forecaster, self.options)


def _no_capacity() -> MillraceError:
    allowed = "rows per second that an ingest node can take, > 0; only a fleet learns it"
    return MillraceError("admission.capacity", None, allowed, "Set it.")


def _per_period(metadata: Metadata, period_s: int) -> Metadata:
    """Return metadata with rates per period in place of rates per second."""
    rates = metadata.model_dump(include=set(RATES), exclude_none=True)
    return metadata.model_copy(update={name: rate * period_s for name, rate in rates.items()})

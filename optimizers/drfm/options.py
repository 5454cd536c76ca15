"""The spec's section ``admission``: what an ingest node takes, who assigns streams, and how rates are forecast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from include.model.errors import MillraceError
from optimizers.drfm import sizing
from optimizers.drfm.forecasters import Best, Forecaster, Holt, Seasonal
from optimizers.drfm.metadata import SECTION as STREAMS
from optimizers.drfm.metadata import Metadata
from optimizers.drfm.metadata import parse as parse_streams
from optimizers.drfm.paper.strategies import StrategyOptions
from optimizers.drfm.placement import HorizonOptions
from optimizers.drfm.problem import Planner
from optimizers.drfm.rate_forecaster import ForecastOptions, RateForecaster
from optimizers.ranges import ADMISSION, POSITIVE, check, key

HORIZON, WITH_METADATA = "horizon", ("horizon", "drfm")
"""The default, and the methods that use metadata."""
METHODS = ("horizon", "par", "ari", "ard", "drf", "drfm")
RATES = ("minimum", "maximum", "average", "slope")
"""Characteristics that are rates."""


@dataclass(frozen=True)
class AdmissionOptions:
    """How streams are admitted.

    Attributes:
        capacity: Rate at which an ingest node is always busy, rows a second of event time, > 0.
        method: ``horizon`` is ours; ``par``, ``ari``, ``ard``, ``drf`` and ``drfm`` are the paper's.
        ingest: Names of the ingest tables between which a feed redirects its streams; none where plans are advice.
        quiet: Periods without a row after which a stream counts as gone, >= 1.
        knobs: Those of the method.
        forecast: How rates are forecast.
        forecaster: Forecasts streams whose cycle is not known.
        streams: Declared metadata by stream; rates in rows a second, durations in periods.
        sizing: What is known of the workers behind; None to size none.
    """

    capacity: float
    method: str = HORIZON
    ingest: tuple[str, ...] = ()
    quiet: int = 192
    knobs: HorizonOptions | StrategyOptions = field(default_factory=HorizonOptions)
    forecast: ForecastOptions = field(default_factory=ForecastOptions)
    forecaster: Forecaster = field(default_factory=Best)
    streams: Mapping[str, Metadata] = field(default_factory=dict)
    sizing: sizing.Sizing | None = None

    def __post_init__(self) -> None:
        check("capacity", self.capacity, POSITIVE, "admission")
        check("method", self.method, METHODS, ADMISSION)
        check("quiet", self.quiet, int, ADMISSION)
        for stream, metadata in self.streams.items():
            for name in ("minimum", "average", "maximum"):
                rate = getattr(metadata, name)
                if rate is not None and rate > self.usable:
                    allowed = f"<= {self.usable:g}, what streams may fill a node with"
                    remedy = "Divide the stream, raise admission.capacity, or leave the value out."
                    raise MillraceError(f"{STREAMS}.{stream}.{name}", rate, allowed, remedy)

    @property
    def usable(self) -> float:
        """Rate that streams may fill a node with: all of its capacity, or what sizing leaves of it."""
        return self.capacity if self.sizing is None else self.capacity * self.sizing.busy_ratio

    @property
    def ahead(self) -> int:
        """Periods that the planner looks ahead."""
        return self.knobs.ahead

    def planner(self) -> Planner:
        """Return who assigns."""
        if isinstance(self.knobs, HorizonOptions):
            from optimizers.drfm.horizon import plan

            return partial(plan, options=self.knobs)
        from optimizers.drfm.paper.strategies import STRATEGIES

        return STRATEGIES[self.method](self.knobs).plan

    def rate_forecaster(self, period_s: int) -> RateForecaster:
        """Return the forecaster of the streams, whose rates are rows a period.

        Args:
            period_s: Length of a period, seconds.
        """
        used = self.streams if self.method in WITH_METADATA else {}
        metadata = {stream: _per_period(m, period_s) for stream, m in used.items()}
        return RateForecaster(self.usable * period_s, metadata, self.forecaster, self.forecast)


def parse(section: Mapping[str, Any]) -> AdmissionOptions:
    """Return the checked options of a spec's section ``admission``; what is absent has its default.

    Args:
        section: ``capacity``; ``ingest``; ``options``: method, quiet, and by their names the knobs of the method, those
            of :class:`ForecastOptions`, and of the forecaster: ``season`` (:class:`Seasonal`), or ``alpha``, ``gamma``,
            ``damping`` (:class:`Holt`); ``streams``: metadata by stream; ``sizing``: see :class:`sizing.Sizing`.

    Raises:
        MillraceError: If an option is unknown, a value of a wrong type or out of range, or metadata contradict
            themselves or the capacity.
    """
    given = dict(section.get("options") or {})
    method = given.get("method", HORIZON)
    check("method", method, METHODS, ADMISSION)
    knobs = HorizonOptions if method == HORIZON else StrategyOptions
    _refuse_unknown(given, {"method", "quiet", *_names(knobs), *FORECAST_NAMES, *_names(Seasonal), *_names(Holt)})
    # the paper's strategies know what is declared, and no more
    forecast = {"learns": method == HORIZON, **_only(FORECAST_NAMES, given)}
    return AdmissionOptions(
        capacity=section.get("capacity", 0.0),
        ingest=tuple(section.get("ingest") or ()),
        knobs=knobs(**_only(_names(knobs), given)),
        forecast=ForecastOptions(**forecast),
        forecaster=_forecaster(given, method),
        streams=parse_streams(section.get("streams") or {}),
        sizing=sizing.parse(section.get("sizing")),
        **_only({"method", "quiet"}, given),
    )


def _forecaster(given: Mapping[str, Any], method: str) -> Forecaster:
    seasonal, holt = _only(_names(Seasonal), given), _only(_names(Holt), given)
    if seasonal and holt:
        name, value = next(iter(holt.items()))
        raise MillraceError(key(name, ADMISSION), value, "nothing beside season", "Leave out one of the two.")
    if seasonal:
        return Seasonal(**seasonal)
    return Holt(**holt) if holt or method != HORIZON else Best()


def _names(kind: type[Any]) -> set[str]:
    return {f.name for f in fields(kind)}


FORECAST_NAMES = _names(ForecastOptions) - {"learning", "trust"}
"""Options of forecasts that a spec may set."""


def _only(names: set[str], given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in names}


def _refuse_unknown(given: Mapping[str, Any], allowed: set[str]) -> None:
    for name in given:
        if name not in allowed:
            remedy = "Remove it or correct its name."
            raise MillraceError(key(str(name), ADMISSION), given[name], ", ".join(sorted(allowed)), remedy)


def _per_period(metadata: Metadata, period_s: int) -> Metadata:
    """Return metadata with rates a period in place of rates a second."""
    rates = {name: getattr(metadata, name) for name in RATES}
    return replace(metadata, **{name: rate * period_s for name, rate in rates.items() if rate is not None})

"""Options of drfm in a pipeline's spec: what an ingest node takes, who assigns streams, and what is told of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from include.model.errors import MillraceError
from optimizers.drfm import sizing
from optimizers.drfm.admission import Planner
from optimizers.drfm.forecast.best import Best
from optimizers.drfm.forecast.forecaster import Forecaster
from optimizers.drfm.forecast.holt import Holt
from optimizers.drfm.forecast.naive import Seasonal
from optimizers.drfm.horizon.options import Options as HorizonOptions
from optimizers.drfm.metadata.stream import SECTION as STREAMS
from optimizers.drfm.metadata.stream import Metadata
from optimizers.drfm.metadata.stream import parse as parse_streams
from optimizers.drfm.outlook import Options as OutlookOptions
from optimizers.drfm.strategies.options import Options as StrategyOptions
from optimizers.ranges import ADMISSION, POSITIVE, check, key, parse_fields

HORIZON, TOLD = "horizon", ("horizon", "drfm")
"""The default, and the methods that use metadata."""
METHODS = ("horizon", "par", "ari", "ard", "drf", "drfm")
NESTED = ("learning", "trust")
"""Options of the outlook that are no plain value and have no name in a spec."""


@dataclass(frozen=True)
class Sizing:
    """What is known of the workers behind the ingest nodes.

    Attributes:
        costs: What a row costs them.
        headroom: Share of a worker that stays free (H), [0, 1).
        latency_s: Bound of the results' latency (L), > 0; infinite for none.
    """

    costs: sizing.Costs
    headroom: float = 0.2
    latency_s: float = math.inf

    def __post_init__(self) -> None:
        """Refuse what no number of workers can meet."""
        sizing.fill(self.costs, self.headroom, self.latency_s)


@dataclass(frozen=True)
class Options:
    """How streams are admitted.

    Attributes:
        capacity: Rate at which an ingest node is always busy, rows a second of event time, > 0.
        method: ``horizon`` is ours; ``par``, ``ari``, ``ard``, ``drf`` and ``drfm`` are the paper's.
        ingest: Names of the ingest tables between which a feed redirects its streams; none where plans are advice.
        quiet: Periods without a row after which a stream counts as gone, >= 1.
        horizon: Knobs of ``horizon``.
        strategy: Knobs of the paper's.
        outlook: Where expectations come from.
        forecaster: Forecasts streams whose cycle is not known.
        streams: What is told of streams, by their ids; rates in rows a second, durations in periods.
        sizing: What is known of the workers behind; None to size none.
    """

    capacity: float
    method: str = HORIZON
    ingest: tuple[str, ...] = ()
    quiet: int = 192
    horizon: HorizonOptions = field(default_factory=HorizonOptions)
    strategy: StrategyOptions = field(default_factory=StrategyOptions)
    outlook: OutlookOptions = field(default_factory=OutlookOptions)
    forecaster: Forecaster = field(default_factory=Best)
    streams: Mapping[str, Metadata] = field(default_factory=dict)
    sizing: Sizing | None = None

    def __post_init__(self) -> None:
        """Refuse values of a wrong type or out of range, and streams that no node can take."""
        check("capacity", self.capacity, POSITIVE, "admission")
        check("method", self.method, METHODS, ADMISSION)
        check("quiet", self.quiet, int, ADMISSION)
        for stream, told in self.streams.items():
            for name in ("minimum", "average", "maximum"):
                rate = getattr(told, name)
                if rate is not None and rate > self.usable:
                    allowed = f"<= {self.usable:g}, what streams may fill a node with"
                    remedy = "Divide the stream, raise admission.capacity, or leave the value out."
                    raise MillraceError(f"{STREAMS}.{stream}.{name}", rate, allowed, remedy)

    @property
    def usable(self) -> float:
        """Rate that streams may fill a node with: all of its capacity, or what sizing leaves of it."""
        if self.sizing is None:
            return self.capacity
        return sizing.split_capacity(self.capacity, self.sizing.costs, self.sizing.headroom, self.sizing.latency_s)

    @property
    def ahead(self) -> int:
        """Periods that the planner is told of."""
        return self.horizon.ahead if self.method == HORIZON else self.strategy.ahead

    def planner(self) -> Planner:
        """Return who assigns."""
        if self.method == HORIZON:
            from optimizers.drfm.horizon.planner import plan

            return partial(plan, options=self.horizon)
        from optimizers.drfm.strategies.compositions import STRATEGIES

        return STRATEGIES[self.method](self.strategy).plan


def parse(section: Mapping[str, Any]) -> Options:
    """Return checked options of a spec's section ``admission``; what is absent has its default.

    Args:
        section: ``capacity``; ``ingest``; ``options``: method, quiet, and by their names the knobs of the method and
            of the outlook; ``season`` for forecasts by what was a season ago, or what Holt's model takes,
            else horizon has the best of several; ``streams``: what is told of streams, by id; ``sizing``: the costs of
            :class:`optimizers.drfm.sizing.Costs`, ``headroom`` and ``latency_s``.

    Raises:
        MillraceError: If an option is unknown, a value of a wrong type or out of range, or what is told of a stream
            contradicts itself or the capacity.
    """
    given = dict(section.get("options") or {})
    own = {name: given.pop(name) for name in ("method", "quiet") if name in given}
    method = own.get("method", HORIZON)
    check("method", method, METHODS, ADMISSION)
    planner = HorizonOptions if method == HORIZON else StrategyOptions
    forecasts = Seasonal if "season" in given else Holt
    kinds: Sequence[type[Any]] = (planner, OutlookOptions, forecasts)
    known = {name for kind in kinds for name in _names(kind)}
    for name in given:
        if name not in known:
            allowed = ", ".join(sorted({*known, "method", "quiet", "season"}))
            raise MillraceError(key(str(name), ADMISSION), given[name], allowed, "Remove it or correct its name.")
    ours, outlook, forecaster = ({n: given[n] for n in _names(kind) if n in given} for kind in kinds)
    return Options(
        capacity=section.get("capacity", 0.0),
        ingest=tuple(section.get("ingest") or ()),
        horizon=HorizonOptions(**(ours if method == HORIZON else {})),
        strategy=StrategyOptions(**({} if method == HORIZON else ours)),
        # the paper's strategies know what they are told, and no more
        outlook=OutlookOptions(**{"learns": method == HORIZON, **outlook}),
        forecaster=forecasts(**forecaster) if forecaster or method != HORIZON else Best(),
        streams=parse_streams(section.get("streams") or {}),
        sizing=_sizing(section.get("sizing")),
        **own,
    )


def _names(kind: type[Any]) -> set[str]:
    return {f.name for f in fields(kind)} - set(NESTED)


def _sizing(given: Mapping[str, Any] | None) -> Sizing | None:
    if given is None:
        return None
    whole = {name: given[name] for name in ("headroom", "latency_s") if name in given}
    free = {"query_s": 0.0, "merge_s": 0.0, "partials": 0.0}  # a query worker's cost has to be told: 0 is refused
    costs = {**free, **{name: value for name, value in given.items() if name not in whole}}
    if "through_s" in costs:
        costs["through_s"] = tuple(costs["through_s"])
    return Sizing(parse_fields(sizing.Costs, costs, ("headroom", "latency_s"), sizing.SECTION), **whole)

"""The ways to assign streams that are compared, by name, each with what it may know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from millrace.optimizers.drfm.forecasters import Best, Forecaster, Holt
from millrace.optimizers.drfm.horizon import plan
from millrace.optimizers.drfm.metadata import read_streams
from millrace.optimizers.drfm.paper.strategies import STRATEGIES, StrategyOptions
from millrace.optimizers.drfm.problem import Planner
from millrace.optimizers.drfm.rate_forecaster import ForecastOptions, RateForecaster
from millrace.optimizers.drfm.stream_placement import HorizonOptions


@dataclass(frozen=True)
class Method:
    """A planner and its sources.

    Attributes:
        planner: Who assigns.
        ahead: Periods that it is told of.
        told: It gets the metadata.
        learns: It learns characteristics from history.
        forecaster: For streams whose cycle is not known.
    """

    planner: Planner
    ahead: int
    told: bool
    learns: bool = False
    forecaster: Forecaster = field(default_factory=Holt)

    def rate_forecaster(self, capacity: float, metadata: Mapping[str, Mapping[str, Any]]) -> RateForecaster:
        """Return what foresees the rates of a run.

        Args:
            capacity: Of a node.
            metadata: By stream.
        """
        declared = read_streams(metadata) if self.told else {}
        return RateForecaster(capacity, declared, self.forecaster, ForecastOptions(learns=self.learns))


def paper(name: str, options: StrategyOptions | None = None) -> Method:
    """Return a strategy of the paper."""
    options = options or StrategyOptions()
    return Method(STRATEGIES[name](options).plan, options.ahead, told=name == "drfm")


def ours(options: HorizonOptions | None = None, *, told: bool = True) -> Method:
    """Return the horizon planner."""
    options = options or HorizonOptions()
    return Method(partial(plan, options=options), options.ahead, told=told, learns=True, forecaster=Best())


METHODS: Mapping[str, Callable[[], Method]] = {
    **{name: partial(paper, name) for name in STRATEGIES},
    "horizon": ours,
}

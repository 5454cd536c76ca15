"""The compared ways to assign streams, by name, each with the information that it gets."""

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
    """A planner and its inputs.

    Attributes:
        planner: The planner.
        ahead: Periods that it gets forecasts for.
        told: Whether it gets the metadata.
        learns: Whether it learns characteristics from history.
        forecaster: For streams without a known cycle.
    """

    planner: Planner
    ahead: int
    told: bool
    learns: bool = False
    forecaster: Forecaster = field(default_factory=Holt)

    def rate_forecaster(self, capacity: float, metadata: Mapping[str, Mapping[str, Any]]) -> RateForecaster:
        """Return the rate forecaster of a run.

        Args:
            capacity: Capacity of a node.
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

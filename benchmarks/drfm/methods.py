"""The ways to assign streams that are compared, by name, each with what it may know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from optimizers.drfm.admission import Admission, Planner
from optimizers.drfm.forecast.best import Best
from optimizers.drfm.forecast.forecaster import Forecaster
from optimizers.drfm.forecast.holt import Holt
from optimizers.drfm.horizon import planner as horizon
from optimizers.drfm.horizon.options import Options as HorizonOptions
from optimizers.drfm.metadata.stream import parse
from optimizers.drfm.outlook import Options, Outlook
from optimizers.drfm.strategies.compositions import STRATEGIES
from optimizers.drfm.strategies.options import Options as StrategyOptions

Told = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Method:
    """A planner and its sources.

    Attributes:
        planner: Who assigns.
        ahead: Periods that it is told of.
        told: It gets the metadata.
        learns: It learns metadata from history.
        forecaster: For streams whose cycle is not known.
    """

    planner: Planner
    ahead: int
    told: bool
    learns: bool = False
    forecaster: Forecaster = field(default_factory=Holt)

    def start(self, capacity: float, metadata: Told) -> Admission:
        """Begin a run.

        Args:
            capacity: Of a node.
            metadata: By stream.
        """
        told = parse(metadata) if self.told else None
        outlook = Outlook(capacity, told, self.forecaster, Options(learns=self.learns))
        return Admission(outlook, self.planner, capacity, self.ahead)


def paper(name: str, options: StrategyOptions | None = None) -> Method:
    """Return a strategy of the paper."""
    options = options or StrategyOptions()
    return Method(STRATEGIES[name](options).plan, options.ahead, told=name == "drfm")


def ours(options: HorizonOptions | None = None, *, told: bool = True) -> Method:
    """Return the horizon planner."""
    options = options or HorizonOptions()
    return Method(partial(horizon.plan, options=options), options.ahead, told=told, learns=True, forecaster=Best())


METHODS: Mapping[str, Callable[[], Method]] = {
    **{name: partial(paper, name) for name in STRATEGIES},
    "horizon": ours,
}

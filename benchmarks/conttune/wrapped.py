"""Wrappers around an optimizer: plan with headroom, rest after a step, measure decision times."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Deployment
from millrace.model.protocols import Optimizer
from millrace.model.signals import Signals


@dataclass(frozen=True)
class Planned:
    """An optimizer that gets a lower target utilisation than the owner's, so it keeps more headroom.

    Only the optimizer's input differs: it is still judged by the owner's objective.

    Attributes:
        inner: The optimizer.
        share: Share of the target utilisation that it gets, (0, 1].
    """

    inner: Optimizer
    share: float

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Let the optimizer decide for the lower target."""
        target = signals.objective.target_utilisation * self.share
        told = replace(signals, objective=replace(signals.objective, target_utilisation=target))
        return self.inner.propose(told, current, memory)


@dataclass(frozen=True)
class Timed:
    """An optimizer whose decisions are timed.

    Attributes:
        inner: The optimizer.
        decisions_ms: Time of each evaluation that changes something, milliseconds per sizable operator.
    """

    inner: Optimizer
    decisions_ms: list[float] = field(default_factory=list)

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Let the optimizer decide, and record how long it took."""
        begin = time.perf_counter()
        proposal, kept = self.inner.propose(signals, current, memory)
        took_ms = (time.perf_counter() - begin) * 1000
        if proposal.changes:
            operators = sum(max(1, len(app.parallelism)) for app in current.apps.values())
            self.decisions_ms.append(took_ms / max(1, operators))
        return proposal, kept


@dataclass(frozen=True)
class Rested:
    """An optimizer with a stopping rule: after a sufficient step it changes nothing while the load stays the same.

    Without such a rule, a method that acts on every evaluation follows the noise of every evaluation.

    Attributes:
        inner: The optimizer.
    """

    inner: Optimizer

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Let the optimizer decide, unless its last step was sufficient and the load is still the same."""
        rates = {app.app: app.arrival_rows_per_s or 0.0 for app in signals.apps}
        then, healthy = memory.get("rates"), all((a.backpressured_ratio or 0.0) < PRESSED for a in signals.apps)
        if then is not None and healthy and not signals.settling and _alike(rates, then):
            return Proposal(
                "rested", (), "step_sufficed", "The last step was enough, and the load is the same."
            ), memory
        proposal, kept = self.inner.propose(signals, current, memory.get("inner", {}))
        return proposal, {"rates": rates if proposal.changes else then, "inner": kept}


PRESSED = 0.01
"""From this backpressure on, a step was not sufficient."""
SAME = 0.05
"""Loads that differ by less count as the same."""


def _alike(rates: Mapping[str, float], then: Mapping[str, float]) -> bool:
    return all(abs(rate - then.get(app, 0.0)) <= SAME * max(rate, then.get(app, 0.0)) for app, rate in rates.items())

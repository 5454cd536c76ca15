"""Whether ContTune's Small phase explored (p_lin) or exploited (p_acq), operator by operator ([ContTune], Algorithm 2).

A Proposal tells the level and not by which means it was found, so the choice is made once more beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from include.model.decision import Memory, Proposal
from include.model.deployment import Deployment
from include.model.signals import Signals
from optimizers.conttune.history import columns, nearest
from optimizers.conttune.job import Operator, job
from optimizers.conttune.paper import acquisition
from optimizers.conttune.paper.cbo import Suggestion, suggest
from optimizers.conttune.paper.linear import linear
from optimizers.conttune.paper.look import Look
from optimizers.conttune.paper.memory import read
from optimizers.conttune.paper.surrogate import curve
from optimizers.conttune.paper.tuner import ContTune
from optimizers.conttune.reasons import Reason

EXPLOITED, EXPLORED = "acq", "lin"
"""The means of a Suggestion."""


@dataclass(frozen=True)
class Watched:
    """ContTune, whose choices are noted.

    Attributes:
        inner: The tuner; its acquisition is Eq. 5, and it does not unstick.
        choices: Of every look that changes something by the Small phase: seconds since the first look's begin, and
            what Algorithm 2 suggests for each operator that changes, by its id.
    """

    inner: ContTune
    choices: list[tuple[float, Mapping[str | None, Suggestion]]] = field(default_factory=list)
    _begin: list[float] = field(default_factory=list)

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Let it decide, and note how."""
        self._begin[:] = self._begin or [signals.since.timestamp()]
        proposal, kept = self.inner.propose(signals, current, memory)
        if proposal.changes and proposal.reason_code not in (Reason.BINARY_LIFTING, Reason.OUT_OF_BOUNDS):
            at = signals.until.timestamp() - self._begin[0]
            self.choices.append((at, dict(self._made(signals, current, kept, proposal))))
        return proposal, kept

    def _made(
        self, signals: Signals, current: Deployment, kept: Memory, proposal: Proposal
    ) -> Iterator[tuple[str | None, Suggestion]]:
        for app in signals.apps:
            changed = {change.operator for change in proposal.changes if change.app == app.app}
            look = Look(signals, job(app, current), read(kept["apps"][app.app]), self.inner.options)
            yield from ((o.id, _suggested(look, o)) for o in look.job.sizable if o.id in changed)


def _suggested(look: Look, operator: Operator) -> Suggestion:
    """Return Algorithm 2's suggestion for an operator that changes, so that its rate and some level are known."""
    levels, required = look.known[operator.name], look.required(operator) or 0.0
    base = nearest(levels, operator.now or 1)
    model = curve(columns(levels), look.options.surrogate, look.p_max)
    p_acq = acquisition.safe(model.mean, required) if model else None
    p_lin = linear(base.parallelism, base.ability, required)
    return suggest(p_acq, p_lin, [level.parallelism for level in levels], look.options.alpha)

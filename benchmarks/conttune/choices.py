"""Whether ContTune's Small phase explored (p_lin) or exploited (p_acq), by operator ([ContTune], Algorithm 2).

A Proposal contains the level but not how it was found, so the choice is repeated here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Deployment
from millrace.model.signals import Signals
from millrace.optimizers.conttune.job_graph import Operator, build_job
from millrace.optimizers.conttune.messages import Reason
from millrace.optimizers.conttune.observed_levels import nearest, training_columns
from millrace_rivals.conttune.algorithms import Suggestion, linear, safe, suggest
from millrace_rivals.conttune.evaluation import JobEvaluation
from millrace_rivals.conttune.state import JobMemory
from millrace_rivals.conttune.surrogate import fit_curve
from millrace_rivals.conttune.tuner import ContTune
from millrace_rivals.messages import RivalReason

EXPLOITED, EXPLORED = "acq", "lin"
"""The means of a Suggestion."""


@dataclass(frozen=True)
class Watched:
    """ContTune with a record of its choices.

    Attributes:
        inner: The tuner; its acquisition is Eq. 5, and it does not unstick.
        choices: One entry per evaluation in which the Small phase changes something: seconds since the start of the
            first evaluation, and Algorithm 2's suggestion for each operator that changes, by its id.
    """

    inner: ContTune
    choices: list[tuple[float, Mapping[str | None, Suggestion]]] = field(default_factory=list)
    _begin: list[float] = field(default_factory=list)

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Let the tuner decide, and record how."""
        self._begin[:] = self._begin or [signals.since.timestamp()]
        proposal, kept = self.inner.propose(signals, current, memory)
        if proposal.changes and proposal.reason_code not in (RivalReason.BINARY_LIFTING, Reason.OUT_OF_BOUNDS):
            at = signals.until.timestamp() - self._begin[0]
            self.choices.append((at, dict(self._made(signals, current, kept, proposal))))
        return proposal, kept

    def _made(
        self, signals: Signals, current: Deployment, kept: Memory, proposal: Proposal
    ) -> Iterator[tuple[str | None, Suggestion]]:
        for app in signals.apps:
            changed = {change.operator for change in proposal.changes if change.app == app.app}
            evaluation = JobEvaluation(
                signals, build_job(app, current), JobMemory.read(kept["apps"][app.app]), self.inner.options
            )
            yield from ((o.id, _suggest(evaluation, o)) for o in evaluation.job.sizable if o.id in changed)


def _suggest(evaluation: JobEvaluation, operator: Operator) -> Suggestion:
    """Return Algorithm 2's suggestion for an operator that changes, so its rate and some level are known."""
    levels, required = evaluation.levels[operator.name], evaluation.required(operator) or 0.0
    base = nearest(levels, operator.now or 1)
    model = fit_curve(training_columns(levels), evaluation.options.surrogate, evaluation.p_max)
    p_acq = safe(model.mean, required) if model else None
    p_lin = linear(base.parallelism, base.ability, required)
    return suggest(p_acq, p_lin, [level.parallelism for level in levels], evaluation.options.alpha)

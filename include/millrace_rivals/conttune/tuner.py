"""ContTune as an Optimizer: the controller's loop ([ContTune], Section 3 and Algorithm 1), one evaluation at a time.

The algorithm's loop runs over the evaluations: every reconfiguration is measured before the next pass. Small follows
Big in the first evaluation in which the job is no longer under-provisioned; without Big it runs while the job is over-
or under-provisioned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from millrace.model.signals import Signals
from millrace.optimizers.conttune.base_tuner import AppMemory, BaseTuner, Sizings
from millrace.optimizers.conttune.job_graph import Job
from millrace.optimizers.conttune.messages import Reason, percent
from millrace.optimizers.conttune.sizing import Sizing
from millrace_rivals.conttune.evaluation import JobEvaluation
from millrace_rivals.conttune.options import ContTuneOptions
from millrace_rivals.conttune.phases import is_too_little, run_big, run_small, why_rest
from millrace_rivals.conttune.state import BIG, IDLE, JobMemory, JobState, is_backpressured, update_ratios
from millrace_rivals.conttune.surrogate import fit
from millrace_rivals.last_step import LastStep
from millrace_rivals.messages import AnyReason, RivalReason
from millrace_rivals.sizing import hold_job, size_job, size_operator


class ContTune(BaseTuner[ContTuneOptions]):
    """Sizes jobs by Big-small and conservative Bayesian optimisation."""

    name = "conttune"
    Options = ContTuneOptions

    def model(self, training: Mapping[str, Sequence[float]]) -> Any:
        """Return the scikit-learn estimator of PA(p) for a Proposal's ``training``, as the decision used it.

        Args:
            training: Columns ``parallelism`` and ``throughput``.
        """
        return fit(training, self.options.surrogate)

    def tune(self, signals: Signals, job: Job, stored: AppMemory) -> Sizings:
        """Decide on one job."""
        memory = JobMemory.read(stored)
        if self.options.known_arrival_rate:
            throttled = is_backpressured(job.app.backpressured_ratio or 0.0, self.options)
            memory = replace(memory, ratios=update_ratios(job, memory.ratios, throttled=throttled))
        evaluation = JobEvaluation(signals, job, memory, self.options)
        under = self.options.uses_big and evaluation.state is JobState.UNDER
        sizings, memory = _big(evaluation) if under else _small(evaluation)
        return sizings, memory.to_json()


def _big(evaluation: JobEvaluation) -> tuple[Sequence[Sizing], JobMemory]:
    """Lift all operators; the paper's loop ends when the job keeps up, ours also at the bounds."""
    job, bounds = evaluation.job, evaluation.bounds
    levels, p_max = run_big(evaluation)
    to_lift = [operator for operator in job.sizable if levels[operator.name] != operator.now]
    if not to_lift:
        return [hold_job(job, RivalReason.LIFTING_EXHAUSTED, bounds)], evaluation.memory
    sizings = [size_operator(o, levels[o.name], RivalReason.BINARY_LIFTING, bounds) for o in to_lift]
    return sizings, replace(evaluation.memory, p_max=p_max, phase=BIG)


def _small(evaluation: JobEvaluation) -> tuple[Sequence[Sizing], JobMemory]:
    job, bounds, options, state = evaluation.job, evaluation.bounds, evaluation.options, evaluation.state
    memory = replace(evaluation.memory, phase=IDLE)
    if state is JobState.UNKNOWN:
        return [hold_job(job, RivalReason.STATE_UNKNOWN, bounds)], evaluation.memory
    if options.small == "none" or (state is JobState.NORMAL and evaluation.memory.phase != BIG):
        return [hold_job(job, _why_stay(evaluation), bounds)], memory
    slack = percent(options.slack)
    reason = why_rest(evaluation)
    if reason is not None:
        return [hold_job(job, reason, bounds, slack=slack)], memory
    choices = run_small(evaluation)
    if is_too_little(evaluation, choices):
        reason = Reason.SLACK_TOO_SMALL if state is not JobState.UNDER else _why_stay(evaluation)
        return [hold_job(job, reason, bounds, choices, slack=slack)], memory
    sizings = size_job(job, choices, bounds, options.decision_thr, _why_stay(evaluation))
    if any(sizing.changes for sizing in sizings):
        levels = {c.operator.name: bounds.level(c.target) for c in choices}
        memory = replace(memory, step=LastStep(levels, evaluation.required_by_name))
    return sizings, memory


def _why_stay(evaluation: JobEvaluation) -> AnyReason:
    """Return why a job stays although nothing prevents a change."""
    if evaluation.state is not JobState.UNDER:
        return Reason.WELL_PROVISIONED
    highest = all(p >= evaluation.bounds.max_slots for p in evaluation.p_now.values())
    return Reason.AT_MAXIMUM if highest else RivalReason.NO_HIGHER_LEVEL

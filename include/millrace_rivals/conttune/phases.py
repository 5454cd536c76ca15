"""The two phases of a tuning, and the rule that ends it.

Big lifts a job's operators, Small finds their least levels ([ContTune], Section 4.2). Small is Algorithm 2: operator by
operator, each separately, because Big or the true arrival rate has shown every lambda.

The stop rule of strong ContTune prevents further steps of a job that is not under-provisioned. It is not in the paper's
text, but the paper's published count of reconfigurations is below what Algorithms 1 and 2 can reach by themselves: they
keep shaving levels as long as the job counts as over-provisioned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millrace.optimizers.conttune.job_graph import Operator
from millrace.optimizers.conttune.messages import Reason
from millrace.optimizers.conttune.observed_levels import Level, nearest, training_columns
from millrace.optimizers.conttune.sizing import utilisation
from millrace_rivals.conttune.algorithms import cei, d_nearest, lift, linear, safe, suggest
from millrace_rivals.conttune.evaluation import JobEvaluation
from millrace_rivals.conttune.state import JobState
from millrace_rivals.conttune.surrogate import PaperCurve, fit_curve
from millrace_rivals.messages import AnyReason, RivalReason
from millrace_rivals.sizing import Choice


def run_big(evaluation: JobEvaluation) -> tuple[Mapping[str, int], int]:
    """Return the levels that the Big phase sets, by operator, and the new p_max, all of them allowed."""
    bounds = evaluation.bounds
    levels, p_max = lift(evaluation.p_now, bounds.level(evaluation.highest_known))
    return {name: bounds.level(p) for name, p in levels.items()}, bounds.level(p_max)


def run_small(evaluation: JobEvaluation) -> Sequence[Choice]:
    """Return the Small phase's choice for every operator that can be sized, in topological order."""
    return [_choose(evaluation, operator) for operator in evaluation.job.sizable]


def why_rest(evaluation: JobEvaluation) -> AnyReason | None:
    """Return why the stop rule leaves a job alone; None if it does not."""
    if not evaluation.options.stop_rule or evaluation.state is JobState.UNDER:
        return None
    step = evaluation.memory.step
    if step is not None and step.holds(evaluation.p_now, evaluation.required_by_name, evaluation.options.slack):
        return RivalReason.STEP_SUFFICED
    slack = any(_has_slack(evaluation, operator) for operator in evaluation.job.sizable)
    return None if slack else Reason.SLACK_TOO_SMALL


def is_too_little(evaluation: JobEvaluation, choices: Sequence[Choice]) -> bool:
    """Return whether the stop rule drops the choices: none goes up, and none goes down far enough.

    Args:
        evaluation: An under-provisioned job takes no step that only goes down.
        choices: The Small phase's choices for its operators.
    """
    lower = [c.operator for c in choices if evaluation.bounds.level(c.target) < c.now]
    if not evaluation.options.stop_rule or not lower or any(c.target > c.now for c in choices):
        return False
    return evaluation.state is JobState.UNDER or not any(_has_slack(evaluation, operator) for operator in lower)


def _has_slack(evaluation: JobEvaluation, operator: Operator) -> bool:
    """Return whether enough of an operator's ability is unused for a step down; an unknown ability passes."""
    used = utilisation(evaluation.required(operator), evaluation.ability(operator))
    return used is None or 1 - used >= evaluation.options.slack


def _choose(evaluation: JobEvaluation, operator: Operator) -> Choice:
    """Return Algorithm 2's choice for one operator.

    If no level up to p_max is feasible, the paper says nothing: p_lin is used, and if the job is then
    under-provisioned, the next evaluation is in the Big phase again.

    Deviation:
        ``unstick``: an over-provisioned level that has been observed is its own nearest, at distance 0, so Algorithm 2
        would stay on it forever; p_lin leads down. In the same way p_lin leads up if p_acq keeps an under-provisioned
        level.
    """
    now, lam, levels = operator.now or 1, evaluation.required(operator), evaluation.levels[operator.name]
    if lam is None:
        return Choice(operator, now, None, operator.ability, reason=Reason.RATE_UNKNOWN)
    if not levels:
        return Choice(operator, now, lam, None, reason=Reason.CAPACITY_UNKNOWN)
    options, base = evaluation.options, nearest(levels, now)
    p_lin = linear(base.parallelism, base.ability, lam)
    training, model = training_columns(levels), None
    if options.small == "linear":
        target = p_lin
    else:
        model = fit_curve(training, options.surrogate, evaluation.p_max)
        observed = [level.parallelism for level in levels]
        target = suggest(_acquire(evaluation, model, lam, observed), p_lin, observed, options.alpha).parallelism
        if options.unstick:
            infeasible = [level.parallelism for level in levels if level.ability < lam]
            target = _unstick(evaluation.state, now, target, p_lin, infeasible)
    return Choice(
        operator,
        target,
        evaluation.rates[operator.id],
        expected_ability(levels, None, now, options.alpha),
        expected_ability(levels, model, evaluation.bounds.level(target), options.alpha),
        curve=model.columns() if model else {},
        training=training if model else {},
    )


def expected_ability(levels: Sequence[Level], model: PaperCurve | None, p: int, alpha: float) -> float:
    """Return the expected processing ability of a level, rows per second, >= 0.

    Within the known regions it is the surrogate's. Elsewhere it is the linear method's: Algorithm 2 trusts nothing else
    there, and the authors' GP falls to 0.
    """
    if model is not None and p <= len(model.mean) and d_nearest(p, [q.parallelism for q in levels]) <= alpha:
        return max(0.0, float(model.mean[p - 1]))
    level = nearest(levels, p)
    return level.ability * p / level.parallelism


def _acquire(evaluation: JobEvaluation, model: PaperCurve | None, lam: float, observed: Sequence[int]) -> int | None:
    if model is None:
        return None
    if evaluation.options.acquisition == "safe":
        return safe(model.mean, lam)
    return cei(model.mean, model.std, lam, observed)


def _unstick(state: JobState, now: int, target: int, p_lin: int, infeasible: Sequence[int]) -> int:
    """Return p_lin if Algorithm 2 sticks to a level; downward, never to a level that was seen to be too small."""
    if state is JobState.UNDER:
        return p_lin if target <= now < p_lin else target
    lowest = max([p_lin, *(p + 1 for p in infeasible if p < now)])
    return lowest if target >= now > lowest else target

"""The two phases of a tuning ([ContTune], Section 4.2): Big lifts a job's operators, Small finds their least levels.

Small is Algorithm 2: operator by operator, each on its own, for Big or the known arrival rate has told every lambda.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizers.conttune.choice import Choice, clamp
from optimizers.conttune.history import Level, columns, nearest
from optimizers.conttune.job import Operator
from optimizers.conttune.paper import acquisition
from optimizers.conttune.paper.big import lift
from optimizers.conttune.paper.cbo import d_nearest, suggest
from optimizers.conttune.paper.linear import linear
from optimizers.conttune.paper.look import Look
from optimizers.conttune.paper.state import State
from optimizers.conttune.paper.surrogate import Curve, curve
from optimizers.conttune.reasons import Reason


def big(look: Look) -> tuple[Mapping[str, int], int]:
    """Return the levels that the Big phase sets, by operator, and the new p_max, all within the bounds."""
    levels, p_max = lift(look.p_now, min(look.highest_known, look.bounds.max_slots))
    allowed = look.bounds.max_slots
    return {name: min(p, allowed) for name, p in levels.items()}, min(p_max, allowed)


def small(look: Look) -> Sequence[Choice]:
    """Return what the Small phase chooses for every operator that can be sized, in topological order."""
    return [_choose(look, operator) for operator in look.job.sizable]


def _choose(look: Look, operator: Operator) -> Choice:
    """Return Algorithm 2's choice for one operator.

    Where no level up to p_max is feasible the paper says nothing: p_lin is taken, and if the job then is
    under-provisioned, the next look is in the Big phase again.

    Deviation:
        ``unstick``: an over-provisioned level that has been observed is its own nearest, at distance 0, so Algorithm 2
        would stay on it for ever; p_lin leads down. Likewise p_lin leads up where p_acq keeps an under-provisioned one.
    """
    now, lam, levels = operator.now or 1, look.required(operator), look.known[operator.name]
    if lam is None:
        return Choice(operator, now, None, operator.ability, reason=Reason.RATE_UNKNOWN)
    if not levels:
        return Choice(operator, now, lam, None, reason=Reason.CAPACITY_UNKNOWN)
    options, base = look.options, nearest(levels, now)
    p_lin = linear(base.parallelism, base.ability, lam)
    training, model = columns(levels), None
    if options.small == "linear":
        target = p_lin
    else:
        model = curve(training, options.surrogate, look.p_max)
        observed = [level.parallelism for level in levels]
        target = suggest(_acquire(look, model, lam, observed), p_lin, observed, options.alpha).parallelism
        if options.unstick:
            target = _freed(look.state, now, target, p_lin, [q.parallelism for q in levels if q.ability < lam])
    return Choice(
        operator,
        target,
        look.rates[operator.id],
        expected(levels, None, now, options.alpha),
        expected(levels, model, clamp(target, look.bounds), options.alpha),
        curve=model.columns() if model else {},
        training=training if model else {},
    )


def expected(levels: Sequence[Level], model: Curve | None, p: int, alpha: float) -> float:
    """Return the processing ability that is to be expected at a level, rows a second, >= 0.

    It is the surrogate's within the known regions; elsewhere the linear method's, as Algorithm 2 trusts nothing else
    there, and the authors' GP falls to 0.
    """
    if model is not None and p <= len(model.mean) and d_nearest(p, [q.parallelism for q in levels]) <= alpha:
        return max(0.0, float(model.mean[p - 1]))
    level = nearest(levels, p)
    return level.ability * p / level.parallelism


def _acquire(look: Look, model: Curve | None, lam: float, observed: Sequence[int]) -> int | None:
    if model is None:
        return None
    if look.options.acquisition == "safe":
        return acquisition.safe(model.mean, lam)
    return acquisition.cei(model.mean, model.std, lam, observed)


def _freed(state: State, now: int, target: int, p_lin: int, infeasible: Sequence[int]) -> int:
    """Return p_lin where Algorithm 2 sticks to a level; downward, never to one that was seen not to suffice."""
    if state is State.UNDER:
        return p_lin if target <= now < p_lin else target
    lowest = max([p_lin, *(p + 1 for p in infeasible if p < now)])
    return lowest if target >= now > lowest else target

"""Share a pipeline's slots between its apps, to maximise the share of its need that the whole graph sustains.

Symbols:
    n_i        need of app i, rows per second
    T_i(p)     throughput at p slots: the running maximum over allowed levels (more slots never process less)
    s_i(p)     min(1, T_i(p) / n_i), the share that app i sustains; 1 if it needs nothing
    l_i(s)     the least level with s_i(p) >= s

    maximise min_i s_i(p_i) subject to sum_i p_i <= budget

All rows pass through the graph, so the app with the smallest share limits it.

The result is exact, whatever the steps and the shape of the curves; it needs only that T_i does not fall:
    A share s fits the budget if and only if sum_i l_i(s) does, because l_i(s) is the least that app i needs for s. The
    smallest share of any allocation is the share of one app at one level, so only those shares are candidates. The sum
    does not fall as s rises, so bisection finds the largest candidate s* that fits. Then l_i(s*) sustains s*, with the
    fewest slots of every app.

Adding one step at a time to the app with the smallest share leads to the same shares, for equal and different steps:
    While the smallest share is below s*, its app is below l_i(s*), so its next step does not exceed l_i(s*) and fits
    the budget. No app ever exceeds l_i(s*), and all are at it once the smallest share is s*. Later steps on a
    plateau would raise nothing, which the search avoids.

Reference: own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class Claim:
    """The slots that one app of a pipeline can use.

    Attributes:
        app: Name of the app, unique in the pipeline.
        need: Rows per second that it has to take in, >= 0 and finite.
        throughput: Returns the rows per second that it processes at a number of slots, for example ``Curve.sure_at``.
            Noise may make it fall from one level to the next.
        low: Fewest slots, >= 0.
        high: Most slots that it may use, >= ``low``: its wanted slots, or ``slots.max``.
        step: Distance between allowed levels, >= 1: the levels are ``low``, ``low + step``, ... up to ``high``.
    """

    app: str
    need: float
    throughput: Callable[[int], float]
    low: int
    high: int
    step: int = 1

    @property
    def levels(self) -> range:
        """All allowed numbers of slots, rising."""
        return range(self.low, self.high + 1, self.step)

    def shares(self) -> Sequence[float]:
        """Return the share of its need that the app sustains at each level, 0..1, never falling."""
        if self.need == 0:
            return [1.0] * len(self.levels)
        best = list(accumulate(map(self.throughput, self.levels), max, initial=0.0))[1:]
        return [min(1.0, rows / self.need) for rows in best]


def share_budget(claims: Sequence[Claim], budget: int) -> Mapping[str, int]:
    """Return the slots per app that sustain the largest possible share of the pipeline's need.

    No app gets a level that it could give up without lowering that share, so slots may remain.

    Args:
        claims: One per app, in any order.
        budget: Slots that the apps may use together, >= the sum of ``low``.
    """
    curves = [(claim, claim.shares()) for claim in claims]
    reachable = min((shares[-1] for _, shares in curves), default=0.0)
    candidates = sorted({share for _, shares in curves for share in shares if share <= reachable})

    def least(share: float) -> Mapping[str, int]:
        return {claim.app: claim.levels[bisect_left(shares, share)] for claim, shares in curves}

    fitting = bisect_right(candidates, budget, key=lambda share: sum(least(share).values()))
    return least(candidates[fitting - 1]) if claims else {}


def sustained_share(claims: Sequence[Claim], slots: Mapping[str, int]) -> float:
    """Return the share of its need that the whole pipeline sustains, 0..1; 1 without apps.

    Args:
        claims: One per app.
        slots: Slots per app, each >= the app's ``low``; slots between two levels count as the lower level.
    """
    shares = (claim.shares()[: len(range(claim.low, slots[claim.app] + 1, claim.step))] for claim in claims)
    return min((share[-1] for share in shares), default=1.0)

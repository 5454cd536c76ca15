"""The pluggable parts of Algorithm 1 ([DRFM], Sections 2.2, 2.5 and 6.1.2).

Each is a small function of the problem; a strategy is a choice of them. Sums are of the strategy's own sizes: of last
rates for PAR, ARI and ARD, of forecasts for DRF, of expectations with metadata for DRF-M. What the problem's ``mean``
holds is for who poses it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optimizers.drfm.problem import Bools, Floats, Problem
from optimizers.drfm.strategies.options import Options

Sizes = Callable[[Problem, Options], Floats]
"""Size of each stream, shape (S,): what is summed on a node, and the decreasing order of placement."""
Overloaded = Callable[[Problem, Options, Floats], Bools]
"""Which nodes must give streams away, shape (N,), by the sums on them, shape (N,)."""
Pick = Callable[[Problem, Options], Floats]
"""Urgency of each stream, shape (S,): an overloaded node gives the most urgent ones away first."""
Accepts = Callable[[Problem, Options, Floats], Bools]
"""Which nodes take streams, shape (N,), by the sums on them, shape (N,)."""


def last_rate(problem: Problem, _: Options) -> Floats:
    """Size: the average rate of the last period."""
    return np.where(problem.placed, problem.rate, problem.mean[0])


def expected_rate(problem: Problem, options: Options) -> Floats:
    """Size: the greater of the rates that are expected in the next and the k-th period.

    The paper sums forecasts without saying for which period; both ends keep a node from filling up in between.
    """
    found: Floats = np.maximum(problem.mean[0], problem.mean[options.steps(problem) - 1])
    return found


def beyond_capacity(problem: Problem, options: Options, sums: Floats) -> Bools:
    """IsOverloaded: the sum is beyond capacity, or the delay beyond the bound.

    Section 2.5 has the delay only, Figure 5 the sum (12 > 10); either is reason enough.
    """
    over: Bools = sums > problem.capacity * options.full
    if problem.latency_s is not None:
        over = over | (problem.latency_s > options.latency_s)
    return over


def every_node(problem: Problem, _: Options, sums: Floats) -> Bools:
    """IsOverloaded of PAR: all nodes are taken as empty and all streams placed anew."""
    return np.ones(len(sums), dtype=bool)


def least_rate(problem: Problem, _: Options) -> Floats:
    """PickStreamsToMove of ARI: the slowest first."""
    return -problem.rate


def greatest_rate(problem: Problem, _: Options) -> Floats:
    """PickStreamsToMove of ARD: the fastest first."""
    return problem.rate


def greatest_rise(problem: Problem, options: Options) -> Floats:
    """PickStreamsToMove of DRF and DRF-M: the greatest expected increase first, X(t+k) - X(t+1)."""
    found: Floats = problem.mean[options.steps(problem) - 1] - problem.mean[0]
    return found


def below_level(problem: Problem, options: Options, sums: Floats) -> Bools:
    """AcceptsNewStream: the sum is below a share of the capacity."""
    found: Bools = sums < options.accepts * options.full * problem.capacity
    return found


def no_node(problem: Problem, _: Options, sums: Floats) -> Bools:
    """AcceptsNewStream of PAR: bins are new ones only."""
    return np.zeros(len(sums), dtype=bool)

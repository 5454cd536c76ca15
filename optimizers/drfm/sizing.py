"""How many split, query and merge workers a pipeline needs.

Symbols:
    R       rate that the input streams will have together, tuples a second
    c       cost of a tuple on a stage, seconds of a worker
    H       headroom: share of a worker that is not used for operators
    o       time that a tuple takes through an idle worker of a stage, s
    L       latency bound of the results, s

    R c_op / n_p = 1 - H                  (1a)
    n_p C_op c_merge / n_m = 1 - H        (1b)

A stage whose workers are busy for the share u of the time takes o / (1 - u). All stages stay within L together if no u
is greater than 1 - (sum of o) / L, so workers are filled up to the lesser of that and 1 - H.

Reference: [DRFM] Section 3.2, Equations 1a and 1b. Deviation: the paper says that L guides the number and not how; the
queueing delay above is that of the design's capacity model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from include.model.errors import MillraceError
from optimizers.ranges import NOT_NEGATIVE, POSITIVE, Range, check

SECTION = "admission.sizing"
ROUNDING = 1e-9


@dataclass(frozen=True)
class Costs:
    """What was measured of a pipeline.

    Attributes:
        query_s: c_op, seconds of a query worker a tuple, > 0.
        merge_s: c_merge, seconds of a merge worker a partial result, >= 0.
        partials: C_op, partial results a second that a busy query worker puts out, >= 0.
        through_s: o of split, query and merge workers, >= 0.

    Raises:
        MillraceError: If a value is out of range.
    """

    query_s: float
    merge_s: float
    partials: float
    through_s: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        check("query_s", self.query_s, POSITIVE, SECTION)
        check("merge_s", self.merge_s, NOT_NEGATIVE, SECTION)
        check("partials", self.partials, NOT_NEGATIVE, SECTION)
        for value in self.through_s:
            check("through_s", value, NOT_NEGATIVE, SECTION)


@dataclass(frozen=True)
class Workers:
    """How many workers of each stage, >= 1 each."""

    split: int
    query: int
    merge: int


def fill(costs: Costs, headroom: float, latency_s: float) -> float:
    """Return the share of the time that a worker may be busy, (0, 1].

    Raises:
        MillraceError: If headroom or bound is out of range, or the bound below what idle workers need.
    """
    check("headroom", headroom, Range(0, 1, high_open=True), SECTION)
    check("latency_s", latency_s, Range(0, math.inf, low_open=True), SECTION)
    idle = sum(costs.through_s)
    if idle >= latency_s:
        raise MillraceError(f"{SECTION}.latency_s", latency_s, f"> {idle:g}", "Raise the bound or speed up the stages.")
    return min(1 - headroom, 1 - idle / latency_s)


def split_capacity(capacity: float, costs: Costs, headroom: float, latency_s: float) -> float:
    """Return the rate that streams may fill a split node with.

    Args:
        capacity: Rate at which a split node is always busy, > 0.
        costs: What was measured.
        headroom: H, [0, 1).
        latency_s: L, > 0; infinite for no bound.

    Raises:
        MillraceError: If a value is out of range.
    """
    check("capacity", capacity, POSITIVE, SECTION)
    return capacity * fill(costs, headroom, latency_s)


def workers(rate: float, split: int, costs: Costs, headroom: float, latency_s: float) -> Workers:
    """Return how many workers the next period needs.

    Args:
        rate: R, >= 0: the sum of what is expected of all streams.
        split: Split nodes of the plan, >= 0.
        costs: What was measured.
        headroom: H, [0, 1).
        latency_s: L, > 0; infinite for no bound.

    Raises:
        MillraceError: If a value is out of range, or the bound below what idle workers need.
    """
    check("rate", rate, NOT_NEGATIVE, SECTION)
    busy = fill(costs, headroom, latency_s)
    query = _at_least_one(rate * costs.query_s / busy)
    merge = _at_least_one(query * costs.partials * costs.merge_s / busy)
    return Workers(max(split, 1), query, merge)


def _at_least_one(workers_needed: float) -> int:
    return max(1, math.ceil(workers_needed - ROUNDING))

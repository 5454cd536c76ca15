"""How many query and merge workers a pipeline needs.

Symbols:
    R       future rate of the input streams together, tuples per second
    c       cost of a tuple on a stage, seconds of a worker
    C_op    partial results per second that a busy query worker puts out
    n_p     query workers, n_m merge workers
    H       headroom: share of a worker that is not used for operators
    o       time that a tuple takes through an idle worker of a stage, s
    L       latency bound of the results, s

    R c_op / n_p = 1 - H                  (1a)
    n_p C_op c_merge / n_m = 1 - H        (1b)

A stage whose workers are busy for the share u of the time takes o / (1 - u). All stages stay within L together if no u
is greater than 1 - (sum of o) / L, so workers are filled up to the lesser of that and 1 - H.

Reference: [DRFM] Section 3.2, Equations 1a and 1b. Deviation: the paper says that L guides the number, but not how; the
queueing delay above is from the design's capacity model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from millrace.model.decision import SLOTS_WANTED
from millrace.model.deployment import SLOTS, Change, Deployment
from millrace.model.signals import Signals
from millrace.optimizers.api import FromList, MillraceError, Options

Seconds = Annotated[float, Field(ge=0)]
ROUNDING = 1e-9


@dataclass(frozen=True)
class WorkerCounts:
    """Number of workers of each stage behind the ingest nodes, >= 1 each."""

    query: int
    merge: int


class WorkerCosts(Options):
    """Costs of the workers downstream of the ingest nodes.

    Attributes:
        query_s: c_op, seconds of a query worker per tuple, > 0.
        merge_s: c_merge, seconds of a merge worker per partial result, >= 0.
        partials: C_op, partial results per second that a busy query worker puts out, >= 0.
        through_s: o of split, query and merge workers, >= 0.
        headroom: H, [0, 1).
        latency_s: L, > 0; infinite for no bound.
        query_app: App whose slots are the query workers; None if their number is only reported.
        merge_app: The same for the merge workers.

    Raises:
        MillraceError: If a value is out of range, or the bound is below what idle workers need.
    """

    section: ClassVar[str] = "admission.sizing"

    query_s: float = Field(gt=0)
    merge_s: float = Field(0.0, ge=0)
    partials: float = Field(0.0, ge=0)
    through_s: Annotated[tuple[Seconds, Seconds, Seconds], FromList] = Field(
        (0.0, 0.0, 0.0), description="three times, each >= 0"
    )
    headroom: float = Field(0.2, ge=0, lt=1)
    latency_s: float = Field(math.inf, gt=0, allow_inf_nan=True)
    query_app: str | None = None
    merge_app: str | None = None

    @model_validator(mode="after")
    def _check_latency(self) -> Self:
        idle = sum(self.through_s)
        if idle >= self.latency_s:
            remedy = "Raise the bound or speed up the stages."
            raise MillraceError(f"{self.section}.latency_s", self.latency_s, f"> {idle:g}", remedy)
        return self

    @property
    def busy_ratio(self) -> float:
        """Share of the time that a worker may be busy, (0, 1]; streams may fill an ingest node up to it."""
        return min(1 - self.headroom, 1 - sum(self.through_s) / self.latency_s)

    def workers(self, rate: float) -> WorkerCounts:
        """Return the workers that the next period needs.

        Args:
            rate: R, >= 0: the sum of the expected rates of all streams.

        Raises:
            MillraceError: If the rate is negative or not finite.
        """
        if not 0 <= rate < math.inf:
            raise MillraceError(f"{self.section}.rate", rate, "a number in [0, inf)", "Measure the streams' rates.")
        query = _at_least_one(rate * self.query_s / self.busy_ratio)
        merge = _at_least_one(query * self.partials * self.merge_s / self.busy_ratio)
        return WorkerCounts(query, merge)


def worker_changes(
    counts: WorkerCounts, costs: WorkerCosts, signals: Signals, current: Deployment, moves: tuple[Change, ...] = ()
) -> tuple[list[Change], dict[str, float]]:
    """Return the changes that give the apps behind the ingest nodes their workers, and what was wanted.

    They stay within the apps' bounds, and within the budget, of which nodes that run after the moves get theirs first.

    Args:
        counts: The workers that the next period needs.
        costs: Names the apps.
        signals: Has the apps' bounds, and the budget.
        current: The Deployment that runs.
        moves: Changes of the streams' nodes.
    """
    changes, wanted, content = list[Change](), dict[str, float](), current.with_changes(moves)
    most = math.inf if signals.budget is None else max(signals.budget, current.slots)
    for name, workers in ((costs.query_app, counts.query), (costs.merge_app, counts.merge)):
        if name is not None and name in content.apps:
            before, bounds = content.apps[name].slots, signals.bounds_of(name)
            need = wanted[f"{SLOTS_WANTED}/{name}"] = float(bounds.level(workers))
            room = min(need, most - (content.slots - before))
            slots = max((level for level in bounds.levels if level <= room), default=bounds.min_slots)
            if slots != before:
                changes.append(Change(name, SLOTS, before, slots))
                content = content.with_changes((changes[-1],))
    return changes, wanted


def _at_least_one(workers: float) -> int:
    return max(1, math.ceil(workers - ROUNDING))

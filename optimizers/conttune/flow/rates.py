"""What each operator has to take in for everything that arrives, whether the job keeps up or not.

An overloaded operator throttles what feeds it, so observed rates hide the need (the paper's Big phase exists to uncover
it). How many rows an operator receives for a row that its producer takes in is not hidden by that. The ratios are
learned as ratios of sums, so that windows that emit in bursts, or nothing for a while, average out; and the true
arrival rate at the sources times the ratios on the way gives the rate at once, with its uncertainty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from optimizers.conttune.inputs import LARGEST, LEAST_ABILITY, possible
from optimizers.conttune.job import Job

FORGET = 0.99
"""Weight that a look keeps in the next one: a hundred looks are remembered."""
LOOK_SD = 0.02
"""Relative error of one look's ratio that is assumed where looks agree by chance."""

Edge = tuple[str, str]


@dataclass(frozen=True)
class Ratio:
    """Rows received (``got``) and rows that the producer took in (``took``), as decaying sums over looks.

    Attributes:
        looks: Decayed number of looks.
        took: Sum of the producer's rates, rows a second.
        got: Sum of the edge's rates, rows a second.
        took2: Sum of squares.
        got2: Sum of squares.
        cross: Sum of products.
    """

    looks: float = 0.0
    took: float = 0.0
    got: float = 0.0
    took2: float = 0.0
    got2: float = 0.0
    cross: float = 0.0

    def seen(self, took: float, got: float) -> Ratio:
        """Return the sums with one more look."""
        return Ratio(
            1 + FORGET * self.looks,
            took + FORGET * self.took,
            got + FORGET * self.got,
            took * took + FORGET * self.took2,
            got * got + FORGET * self.got2,
            took * got + FORGET * self.cross,
        )

    @property
    def mean(self) -> float:
        """Rows received for a row taken in."""
        return self.got / self.took

    @property
    def variance(self) -> float:
        """Relative variance of the mean."""
        if self.got < LEAST_ABILITY:  # nothing is received, and the square of it may be nothing at all
            return 0.0
        r = self.mean
        scatter = max(0.0, self.got2 - 2 * r * self.cross + r * r * self.took2) / self.got**2
        return scatter + LOOK_SD**2 / self.looks


Ratios = Mapping[Edge, Ratio]


def learned(job: Job, before: Ratios) -> Ratios:
    """Return the ratios after this look; an edge that was not measured keeps what is known of it."""
    found = dict(before)
    for edge in job.edges:
        took, got = job.by_id[edge.producer].rate, edge.rows_per_s
        if took is not None and got is not None and possible(took) and 0 <= got <= LARGEST:
            key = (edge.producer, edge.consumer)
            found[key] = found.get(key, Ratio()).seen(took, got if possible(got) else 0.0)
    return found


@dataclass(frozen=True)
class Need:
    """Rows a second that an operator has to take in, and the relative variance of that figure."""

    rate: float
    variance: float = 0.0


def needs(job: Job, ratios: Ratios) -> Mapping[str | None, Need]:
    """Return each operator's need by its id; an operator of which it cannot be told is left out.

    Args:
        job: The job.
        ratios: What was learned of its edges.
    """
    found: dict[str | None, Need] = {}
    for operator in job.operators:
        parts = [] if operator.arrival is None else [Need(operator.arrival)]
        edges = job.into.get(operator.id or "", ())
        for edge in edges:
            fed, ratio = found.get(edge.producer), ratios.get((edge.producer, edge.consumer))
            if fed is not None and ratio is not None and ratio.took > 0:
                parts.append(Need(fed.rate * ratio.mean, fed.variance + ratio.variance))
        if parts and len(parts) == len(edges) + (operator.arrival is not None):
            total = sum(p.rate for p in parts)
            variance = sum((p.rate / total) ** 2 * p.variance for p in parts) if total > 0 else 0.0
            found[operator.id] = Need(min(total, LARGEST), variance)
    return found

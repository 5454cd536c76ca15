"""The rate that each operator has to take in for everything that arrives, even if the job does not keep up.

An overloaded operator throttles its upstream, so observed rates hide the need (the paper's Big phase exists to uncover
it). They do not hide the rows that an operator receives per row that its producer takes in. These ratios are learned as
ratios of sums, which averages out windows that emit in bursts, or nothing for a while. The true arrival rate at the
sources times the ratios on the way gives the rate at once, with its uncertainty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from millrace.optimizers.conttune.figures import LARGEST, LEAST_ABILITY, is_possible
from millrace.optimizers.conttune.job_graph import EdgeId, Job
from millrace.optimizers.memory import items, number

FORGET = 0.99
"""Weight that an evaluation keeps in the next one: a hundred are remembered."""
EVALUATION_SD = 0.02
"""Assumed relative error of one evaluation's ratio, in case evaluations agree by chance."""


class Ratio(NamedTuple):
    """Rows received (``got``) and rows that the producer took in (``took``), as decaying sums over evaluations.

    Attributes:
        evaluations: Decayed number of evaluations.
        took: Sum of the producer's rates, rows per second.
        got: Sum of the edge's rates, rows per second.
        took2: Sum of squares.
        got2: Sum of squares.
        cross: Sum of products.
    """

    evaluations: float = 0.0
    took: float = 0.0
    got: float = 0.0
    took2: float = 0.0
    got2: float = 0.0
    cross: float = 0.0

    def with_rates(self, took: float, got: float) -> Ratio:
        """Return the sums with one more evaluation."""
        return Ratio(
            1 + FORGET * self.evaluations,
            took + FORGET * self.took,
            got + FORGET * self.got,
            took * took + FORGET * self.took2,
            got * got + FORGET * self.got2,
            took * got + FORGET * self.cross,
        )

    @property
    def mean(self) -> float:
        """Rows received per row taken in."""
        return self.got / self.took

    @property
    def variance(self) -> float:
        """Relative variance of the mean."""
        if self.got < LEAST_ABILITY:  # nothing is received, and its square may be 0
            return 0.0
        r = self.mean
        scatter = max(0.0, self.got2 - 2 * r * self.cross + r * r * self.took2) / self.got**2
        return scatter + EVALUATION_SD**2 / self.evaluations


Ratios = Mapping[EdgeId, Ratio]


def learn_ratios(job: Job, before: Ratios) -> Ratios:
    """Return the ratios after this evaluation; edges that were not measured keep theirs."""
    ratios = dict(before)
    for edge in job.edges:
        took, got = edge.taken_rows_per_s, edge.rows_per_s
        if took is None:
            took = job.by_id[edge.producer].rate
        if took is not None and got is not None and is_possible(took) and 0 <= got <= LARGEST:
            key = (edge.producer, edge.consumer)
            ratios[key] = ratios.get(key, Ratio()).with_rates(took, got if is_possible(got) else 0.0)
    return ratios


def ratios_to_json(ratios: Ratios) -> list[list[Any]]:
    """Return ratios as a JSON value."""
    return [[*edge, *ratio] for edge, ratio in ratios.items()]


def read_ratios(stored: object) -> Ratios:
    """Return stored ratios, as far as they are readable."""
    return {edge: ratio for entry in items(stored) for edge, ratio in _entry(items(entry))}


def _entry(entry: Sequence[Any]) -> Iterator[tuple[EdgeId, Ratio]]:
    edge, sums = entry[:2], [n for value in entry[2:] if (n := number(value, 0.0)) is not None]
    named = len(entry) == 8 and all(isinstance(end, str) for end in edge)
    if named and len(sums) == 6 and sums[0] > 0 and is_possible(sums[1]):
        yield (edge[0], edge[1]), Ratio(*sums)


@dataclass(frozen=True)
class Need:
    """Rows per second that an operator has to take in, and the relative variance of that figure."""

    rate: float
    variance: float = 0.0


def find_needs(job: Job, ratios: Ratios) -> Mapping[str | None, Need]:
    """Return each operator's need by its id; operators whose need is unknown are left out.

    Args:
        job: The job.
        ratios: Learned ratios of its edges.
    """
    needs: dict[str | None, Need] = {}
    for operator in job.operators:
        parts = [] if operator.arrival is None else [Need(operator.arrival)]
        edges = job.into[operator.id]
        for edge in edges:
            fed, ratio = needs.get(edge.producer), ratios.get((edge.producer, edge.consumer))
            if fed is not None and ratio is not None and ratio.took > 0:
                parts.append(Need(fed.rate * ratio.mean, fed.variance + ratio.variance))
        if parts and len(parts) == len(edges) + (operator.arrival is not None):
            total = sum(p.rate for p in parts)
            variance = sum((p.rate / total) ** 2 * p.variance for p in parts) if total > 0 else 0.0
            needs[operator.id] = Need(min(total, LARGEST), variance)
    return needs

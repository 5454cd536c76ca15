"""What every operator of a job has to take in, by the ratios of one period or of several."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.optimizers.conttune.job_graph import EdgeId, Job

Rates = Mapping[str | None, float | None]
"""Rows per second by operator id; None: unknown."""


def measured_ratios(job: Job) -> Mapping[EdgeId, float]:
    """Return this period's rows received by each edge's consumer per row that its producer takes in."""
    return {
        (edge.producer, edge.consumer): edge.rows_per_s / taken
        for edge in job.edges
        if (taken := job.by_id[edge.producer].rate) and edge.rows_per_s is not None
    }


def carried_rates(job: Job, ratios: Mapping[EdgeId, float]) -> Rates:
    """Return the rows per second that each operator has to take in for everything that arrives.

    Args:
        job: The job.
        ratios: Rows received per row taken in, by edge.
    """
    rates: dict[str | None, float | None] = {}
    for operator in job.operators:
        parts = [] if operator.arrival is None else [operator.arrival]
        for edge in job.into[operator.id]:
            fed, ratio = rates.get(edge.producer), ratios.get((edge.producer, edge.consumer))
            if fed is None or ratio is None:
                parts = []
                break
            parts.append(fed * ratio)
        rates[operator.id] = sum(parts) if parts else None
    return rates

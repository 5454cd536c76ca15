"""Flow ratios of a job as running means: rows that an edge's consumer receives for a row that its producer takes in.

They carry the true arrival rate from the sources to every operator, however the job is throttled. One look's ratio is
noisy (a window emits in bursts), and while operators hold each other up rows that queue between them falsify it: such a
look counts only where nothing better is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from optimizers.conttune.job import Job

LOOKS = 50
"""Looks that a mean remembers."""


@dataclass(frozen=True)
class Ratio:
    """A running mean >= 0, and the looks behind it; 0 looks where only throttled ones were seen."""

    mean: float
    looks: int = 0


Ratios = Mapping[tuple[str, str], Ratio]


def learned(job: Job, before: Ratios, *, throttled: bool) -> Ratios:
    """Return the ratios with this look's added.

    Args:
        job: The job in this look.
        before: What is known so far.
        throttled: True if its operators hold each other up.
    """
    found = dict(before)
    for edge, ratio in job.ratios().items():
        known = before.get(edge, Ratio(ratio))
        if not math.isfinite(ratio) or (throttled and known.looks):
            continue
        looks = 0 if throttled else min(known.looks + 1, LOOKS)
        found[edge] = Ratio(ratio if looks <= 1 else known.mean + (ratio - known.mean) / looks, looks)
    return found


def means(ratios: Ratios) -> Mapping[tuple[str, str], float]:
    """Return the means alone."""
    return {edge: ratio.mean for edge, ratio in ratios.items()}

"""How evenly panes are assigned under bursts: the paper's Figure 12, simulated from rates.

The rate is 18-22 thousand rows per second, and five times that in each second with probability 0.1. 16 workers process
4 panes per second and are observed over 32 s. The load ratio is the standard deviation of the workers' rows divided by
their mean, averaged over the run after a warm-up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.drfm.pane_assignment import RECENT, least_loaded, paper_rule, plain
from benchmarks.record import Record

WORKERS = 16
PANES_PER_S = 4
OBSERVED_S = 32
SECONDS = 640
BURST, BURST_SHARE = 5, 0.1
RULES = {"plain": plain, "paper_rule": paper_rule, "least_loaded": least_loaded}


def records(quick: bool, first: int = 0) -> Iterator[Record]:
    """Measure each rule.

    Args:
        quick: 5 seeds instead of 30.
        first: Seed of the first run.
    """
    seeds = 5 if quick else 30
    for method, rule in RULES.items():
        ratios = []
        for seed in range(first, first + seeds):
            draws = np.random.default_rng(seed)
            rates = draws.uniform(18e3, 22e3, SECONDS) * np.where(draws.random(SECONDS) < BURST_SHARE, BURST, 1)
            panes = np.repeat(rates / PANES_PER_S, PANES_PER_S)
            loads = rule(panes, WORKERS).loads(WORKERS, len(panes), OBSERVED_S * PANES_PER_S)
            warm = loads[-(-RECENT // (OBSERVED_S * PANES_PER_S)) :]
            ratios.append(float((warm.std(axis=1) / warm.mean(axis=1)).mean()))
        low, high = np.quantile(ratios, [0.025, 0.975])
        yield Record(
            "drfm", "pane_rate_skew", method, "load_ratio", float(np.median(ratios)), "std/mean", low, high, seeds
        )

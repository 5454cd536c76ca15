"""How long a pipeline is down after a fault, and what its results lack in the end.

Two campaigns: faults of drivers, executors and the cluster, healed once per second (``live_campaign``); and faults of
Airflow's processes, disk, database and files, with the whole stack (``stack_campaign``), where a DAG heals once per
minute. The whole run injects 50 faults in about 50 minutes, the quick run eight in about twelve.
"""

from __future__ import annotations

import random
import signal
import tempfile
from collections.abc import Iterable
from itertools import cycle, islice
from pathlib import Path

from benchmarks.faults.campaign import Campaign, campaign_records
from benchmarks.faults.live_campaign import live_faults
from benchmarks.faults.live_injection import FAULTS
from benchmarks.faults.stack_campaign import stack_faults
from benchmarks.faults.stack_injection import faults_of_stack
from benchmarks.record import Record
from millrace.local.stack.progress import say

WHOLE, QUICK = 25, 4
"""Faults per campaign."""


def run(quick: bool, seed: int = 0) -> list[Record]:
    """Inject faults into running pipelines, one after the other. If interrupted, return the figures so far.

    Args:
        quick: A few kinds, drawn by the seed.
        seed: Determines kinds, moments and victims.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a clean shutdown, as with Ctrl-C
    n, chance, found = QUICK if quick else WHOLE, random.Random(seed), Campaign()  # noqa: S311 - draws, no secrets
    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
        root = Path(folder).resolve()
        try:
            live_faults(root / "live", _drawn(FAULTS, n, chance), chance, found)
            stack_faults(root / "stack", _drawn(faults_of_stack(), n, chance), chance, found)
        except KeyboardInterrupt:
            say("interrupted: these are the figures so far")
    return list(campaign_records(found))


def _drawn(kinds: Iterable[str], n: int, chance: random.Random) -> list[str]:
    """Return ``n`` kinds in random order; all appear before one repeats."""
    names = sorted(kinds)
    return list(islice(cycle(chance.sample(names, len(names))), n))

"""The streams on a modelled app (:mod:`benchmarks.elastic.modelled_app`), against fixed sizes: seeds in minutes.

The model shows what a change of the tuner does before it is measured live. It is no replacement: rivals other than
fixed sizes are not modelled, and neither is a machine that is slow at the wrong moment.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.elastic.contest import FIXED, kept_cost
from benchmarks.elastic.judging import Cost
from benchmarks.elastic.measure import behind_s, core_seconds
from benchmarks.elastic.methods import LIVE
from benchmarks.elastic.modelled_app import BEGIN, ModelledApp, ModelledRun
from benchmarks.elastic.streams import Stream
from benchmarks.record import Record, median
from millrace.local.demo.timeline import Timeline

SCENARIO = "modelled"
SEEDS, QUICK_SEEDS = 5, 1


def run_once(stream: Stream, seed: int, max_lag_s: float, slots: int | None = None) -> tuple[Cost, int]:
    """Return what a run costs, and how often it changes its slots.

    Args:
        stream: The arrivals.
        seed: Seed of the model's noise.
        max_lag_s: The lag goal.
        slots: Fixed slots; None if Millrace decides.
    """
    with tempfile.TemporaryDirectory(prefix="millrace-modelled-") as folder:
        run = ModelledApp(stream, Path(folder).resolve(), seed, slots).run()
    done_s = float(run.batch_s[-1])
    behind = behind_s(_timeline(stream, run), done_s, max_lag_s)
    return Cost(core_seconds(run.held, 0.0, done_s), behind), run.changes


def records(
    bench: str, streams: Mapping[str, Sequence[Stream]], levels: Sequence[int], max_lag_s: float
) -> Iterator[Record]:
    """Return a stream's figures as those of a method with its name.

    Args:
        bench: The benchmark's name.
        streams: A stream per seed, by name.
        levels: The fixed sizes.
        max_lag_s: The lag goal.
    """
    for name, seeds in streams.items():
        cores, ratios, behind, changes = [], [], [], []
        for seed, stream in enumerate(seeds):
            costs = {f"{FIXED}_{slots}": run_once(stream, seed, max_lag_s, slots)[0] for slots in levels}
            costs[LIVE.name], changed = run_once(stream, seed, max_lag_s)
            cores.append(costs[LIVE.name].core_seconds)
            behind.append(costs[LIVE.name].behind_s / len(stream.counts))
            changes.append(float(changed))
            kept = kept_cost(costs)
            ratios += [] if kept is None else [cores[-1] / kept.core_seconds]
        yield median(bench, SCENARIO, name, "core_seconds", cores, "core-s")
        if ratios:
            yield median(bench, SCENARIO, name, "core_seconds_vs_fixed", ratios, "ratio")
        yield Record(bench, SCENARIO, name, "behind_ratio", max(behind), "ratio", n=len(behind))
        yield median(bench, SCENARIO, name, "changes", changes, "changes")


def _timeline(stream: Stream, run: ModelledRun) -> Timeline:
    counts, none = np.array(stream.counts, dtype=float), np.zeros(0)
    filled = np.flatnonzero(counts)
    return Timeline(
        begun=BEGIN,
        length_s=float(run.batch_s[-1]),
        apps=("delays",),
        arrival_s=(1 + filled).astype(float),
        arrival_rows=np.cumsum(counts)[filled],
        batch_s=run.batch_s,
        batch_rows=run.batch_rows,
        capacity_s=none,
        capacity_slots=none,
        capacity_rows_per_s=none,
        spans=(),
        evaluations=(),
        changes=(),
    )

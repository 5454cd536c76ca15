"""The streams on a modelled app (:mod:`benchmarks.elastic.modelled_app`), against fixed sizes: seeds in minutes.

The model shows what a change of the tuner does before it is measured live. It is no replacement: rivals other than
fixed sizes are not modelled, and neither is a machine that is slow at the wrong moment.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.elastic.judging import Cost, smallest_kept
from benchmarks.elastic.measure import behind_s, core_seconds
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
            kept = smallest_kept({slots: run_once(stream, seed, max_lag_s, slots)[0] for slots in levels})
            live, changed = run_once(stream, seed, max_lag_s)
            cores.append(live.core_seconds)
            behind.append(live.behind_s / len(stream.counts))
            changes.append(float(changed))
            ratios += [] if kept is None else [live.core_seconds / kept.core_seconds]
        yield median(bench, SCENARIO, name, "core_seconds", cores, "core-s")
        if ratios:
            yield median(bench, SCENARIO, name, "core_seconds_vs_fixed", ratios, "ratio")
        yield Record(bench, SCENARIO, name, "behind_ratio", max(behind), "ratio", n=len(behind))
        yield median(bench, SCENARIO, name, "changes", changes, "changes")


def _timeline(stream: Stream, run: ModelledRun) -> Timeline:
    counts = np.array(stream.counts, dtype=float)
    filled = np.flatnonzero(counts)
    return Timeline(
        begun=BEGIN,
        length_s=float(run.batch_s[-1]),
        apps=("delays",),
        arrival_s=(1 + filled).astype(float),
        arrival_rows=np.cumsum(counts)[filled],
        batch_s=run.batch_s,
        batch_rows=run.batch_rows,
    )

"""Does the capacity fitted at moderate load predict the rate at which backlog really starts to grow?

A real driver of the built-in pipeline runs at p = 1, 2, 4, 8. It first runs at 40 to 60 % of its nominal capacity, and
the batches after a warm-up are fitted. Then many commits per second build up a backlog. The app now reads full batches
(the script's ``--max-files``) back to back, so the rows that it reads per second are the highest sustainable rate; at
any higher rate the backlog grows. Batches of x rows sustain x / (o + x / PA): this is the prediction of the fit.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from time import sleep

import numpy as np
import pyarrow as pa

from benchmarks.delays_app import PARTITIONS, DelaysApp, Feed, flight_rows
from benchmarks.record import Record
from millrace.control.batch_history import healthy
from millrace.control.capacity import fit, heaviest, typical_parallelism
from millrace.model.signals import Capacity
from millrace.model.telemetry import BatchMetrics

LEVELS = (1, 2, 4, 8)
WAIT_MS = 20
LOAD = (0.4, 0.6)
SATURATING = 0.9
"""Rows of a backlog commit, as a share of the nominal capacity. It has as many files as the moderate load's commits."""
MAX_FILES = 64
HOLD_S = 5.0
"""The moderate rate changes this often within its bounds, like a real rate."""


@dataclass(frozen=True)
class Plan:
    """Duration of a measurement: warm-up, batches at moderate load, number of full batches."""

    warm_up_s: float
    moderate_batches: int
    full_batches: int


FULL, QUICK = Plan(30.0, 30, 6), Plan(20.0, 12, 4)


@dataclass(frozen=True)
class Measured:
    """The highest sustainable rate at one p, rows per second: measured, with its interval, and three predictions.

    ``foreign_cpu`` is the share of the host used by others, at moderate load and in full batches. The prediction
    assumes the same host conditions, so the comparison means little if the two shares differ.
    """

    parallelism: int
    truth: float
    low: float
    high: float
    batches: int
    ours: float
    rows_per_duration: float
    heaviest_stage: float
    fixed_s: float
    rows_per_s: float
    foreign_cpu: tuple[float, float]


def run(quick: bool) -> list[Record]:
    """Measure every level; a quick run spends less time on each."""
    plan, rows, records = QUICK if quick else FULL, flight_rows(), []
    for p in LEVELS:
        with tempfile.TemporaryDirectory(prefix="millrace-capacity-") as folder:
            records += _records(measure(Path(folder), p, plan, rows))
    return records


def measure(folder: Path, p: int, plan: Plan, rows: pa.Table) -> Measured:
    """Measure one level with its own driver."""
    nominal = p * 1000 / WAIT_MS
    steps = np.random.default_rng(p).uniform(*LOAD, 1000)
    options = (f"--wait-ms={WAIT_MS}", f"--max-files={MAX_FILES}")
    feed = Feed(folder / "flights", rows)
    feed.commit(PARTITIONS)
    with DelaysApp(folder, p, options) as app:
        app.await_batches(1)
        with feed.at(lambda s: nominal * float(steps[int(s / HOLD_S)])):
            sleep(plan.warm_up_s)
            moderate = app.await_batches(plan.moderate_batches, since=datetime.now(UTC))
        begin = datetime.now(UTC)
        per_commit = int(nominal * SATURATING)
        commits = MAX_FILES // PARTITIONS
        for _ in range((plan.full_batches + 2) * commits):
            feed.commit(per_commit)
        # a batch may still contain files of the moderate load
        full = int(0.98 * per_commit * commits)
        drained = app.await_batches(plan.full_batches + 1, since=begin, rows=full, deadline_s=900.0)
    return judge(p, healthy(moderate), drained)


def judge(p: int, moderate: Sequence[BatchMetrics], drained: Sequence[BatchMetrics]) -> Measured:
    """Compare the prediction from moderate load with the full batches; without a fit the prediction is NaN.

    Args:
        p: The level.
        moderate: Healthy batches at moderate load.
        drained: Full batches that ran back to back.
    """
    steady = drained[1:]
    cycles = [(b.time - a.time).total_seconds() for a, b in zip(drained, steady, strict=False)]
    speeds = [b.rows_in / c for b, c in zip(steady, cycles, strict=True)]
    truth = sum(b.rows_in for b in steady) / sum(cycles)
    spread = 1.96 * (sum((s - fmean(speeds)) ** 2 for s in speeds) / max(len(speeds) - 1, 1) / len(speeds)) ** 0.5
    level = typical_parallelism(moderate) or p
    capacity = fit(moderate).get(level) or Capacity(level, math.nan, math.nan, math.nan, 0)
    busy = [b for b in moderate if b.rows_in > 0]
    seconds = sum(b.duration_s for b in busy)
    stages = [o for b in busy if (o := heaviest(b)) is not None and o.useful_s and o.rows_in and o.p]
    abilities = [(o.p or p) * (o.rows_in or 0) / (o.useful_s or 1) for o in stages]
    x = fmean(b.rows_in for b in steady)
    return Measured(
        parallelism=capacity.parallelism,
        truth=truth,
        low=truth - spread,
        high=truth + spread,
        batches=len(steady),
        ours=x / (capacity.fixed_s + x / capacity.rows_per_s),
        rows_per_duration=sum(b.rows_in for b in busy) / seconds if seconds else math.nan,
        heaviest_stage=median(abilities or [math.nan]),
        fixed_s=capacity.fixed_s,
        rows_per_s=capacity.rows_per_s,
        foreign_cpu=(_foreign(moderate), _foreign(steady)),
    )


def _foreign(batches: Sequence[BatchMetrics]) -> float:
    return median([b.host_cpu_other for b in batches if b.host_cpu_other is not None] or [float("nan")])


def _records(m: Measured) -> list[Record]:
    def record(method: str, figure: str, value: float, unit: str = "rows/s", **more: object) -> Record:
        return Record("capacity", f"p = {m.parallelism}", method, figure, value, unit, **more)  # type: ignore[arg-type]

    found = [
        record("measured", "highest sustainable rate", m.truth, low=m.low, high=m.high, n=m.batches),
        record("host", "foreign CPU, moderate load", m.foreign_cpu[0], "ratio"),
        record("host", "foreign CPU, full batches", m.foreign_cpu[1], "ratio"),
        record("millrace", "fixed cost o", m.fixed_s, "s"),
        record("millrace", "PA = 1 / slope", m.rows_per_s),
    ]
    rivals = {"millrace": m.ours, "rows / duration": m.rows_per_duration, "heaviest stage's PA": m.heaviest_stage}
    for method, predicted in rivals.items():
        found.append(record(method, "predicted rate", predicted))
        ratio = predicted / m.truth
        judged = {"target": "0.9..1.1", "holds": 0.9 <= ratio <= 1.1} if method == "millrace" else {}
        found.append(record(method, "predicted / measured", ratio, "ratio", **judged))
    return found

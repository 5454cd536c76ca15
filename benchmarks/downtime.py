"""Downtime of a restart: hand-over and plain stop and start alternate on the same running stream."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.delays_app import Feed, flight_rows
from benchmarks.record import Record, at_most
from millrace.drivers.app_reconciler import Method
from millrace.drivers.reconciler import Reconciler
from millrace.environment.spark_env import submit_options
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.model.decision import Outcome
from millrace.model.deployment import Deployment
from millrace.model.master import LOCAL
from millrace.model.spec import PipelineSpec
from millrace.pipelines.catalog import BUILT_IN, load

METHODS: tuple[Method, ...] = ("hand-over", "plain")
RATE_ROWS_PER_S = 20.0
SERVE_S = 8.0
"""The app serves this long between two restarts, so each restart interrupts a warm predecessor."""
RATIO_LIMIT = 0.5


def downtime(quick: bool) -> list[Record]:
    """Restart the built-in pipeline under load, each method equally often.

    Args:
        quick: Two restarts per method instead of five.
    """
    gaps: dict[Method, list[float]] = {method: [] for method in METHODS}
    spans: dict[Method, list[float]] = {method: [] for method in METHODS}
    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
        root = Path(folder).resolve()
        pipeline = _Pipeline(root)
        feed = Feed(root / "data" / "flights", flight_rows(1))
        feed.commit(int(RATE_ROWS_PER_S))
        with feed.at(lambda _: RATE_ROWS_PER_S):
            try:
                pipeline.restart("plain")
                for _ in range(2 if quick else 5):
                    for method in METHODS:
                        time.sleep(SERVE_S)
                        gap_s, took_s = pipeline.restart(method)
                        gaps[method].append(gap_s)
                        spans[method].append(took_s)
            finally:
                pipeline.stop()
    records = [_record(method, "downtime", gaps[method]) for method in METHODS]
    records += [_record(method, "new slots running in", spans[method]) for method in METHODS]
    ratio = statistics.median(gaps["hand-over"]) / statistics.median(gaps["plain"])
    target, holds = at_most(ratio, RATIO_LIMIT)
    figure, n = "downtime, hand-over to plain", len(gaps["plain"])
    return [
        *records,
        Record("stack", "restart", "hand-over", figure, round(ratio, 2), "ratio", None, None, n, target, holds),
    ]


class _Pipeline:
    """The built-in pipeline in its own folder."""

    def __init__(self, root: Path) -> None:
        spec = load(BUILT_IN / "delays.yaml", {"MILLRACE_HOME": str(root)})
        local = spec.submit.model_copy(update={"master": LOCAL})  # a change of slots must restart the driver
        self._root, self._spec = root, spec.model_copy(update={"submit": local, "ready_deadline_s": 300.0})
        self._lake = Lake(root / "lake")
        self._store = DeploymentStore(self._lake)
        self._latest: Deployment | None = None

    def restart(self, method: Method) -> tuple[float, float]:
        """Change the slots and return downtime and duration of the whole change, both in seconds."""
        content = self._latest or self._spec.first_deployment()
        app = content.apps[self._spec.app]
        self._commit(replace(content, apps={self._spec.app: replace(app, slots=2 if app.slots == 1 else 1)}))
        (change,) = _reconciler(self._spec, self._lake, self._root, method).reconcile()
        if change.outcome is not Outcome.READY or change.ended is None:
            raise RuntimeError(f"the restart ended {change.outcome}: {change.error}")
        return change.downtime_s or 0.0, (change.ended - change.started).total_seconds()

    def stop(self) -> None:
        """Stop all drivers."""
        if self._latest is not None:
            self._commit(replace(self._latest, running=False))
            _reconciler(self._spec, self._lake, self._root, "plain").reconcile()

    def _commit(self, content: Deployment) -> None:
        self._latest = self._store.commit(content, self._latest.version if self._latest else None)


def _reconciler(spec: PipelineSpec, lake: Lake, root: Path, method: Method) -> Reconciler:
    return Reconciler(spec, ControlTables(lake), root / "run", root / "logs", submit_options(), method)


def _record(method: str, figure: str, values: Sequence[float]) -> Record:
    low = high = None
    if len(values) >= 3:
        draws = np.random.default_rng(7).choice(values, (2000, len(values)))
        low, high = (round(float(q), 2) for q in np.quantile(np.median(draws, axis=1), (0.025, 0.975)))
    value = round(statistics.median(values), 2)
    return Record("stack", "restart", method, figure, value, "s", low, high, len(values))

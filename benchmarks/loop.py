"""The whole loop at work: from telemetry to decision to new slots, and the memory it all takes, in one short demo."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

from benchmarks.record import Record, at_most
from include.lake.decisions import DecisionStore
from include.lake.reconfigurations import ReconfigurationStore
from include.lake.source_tables import arrivals
from include.lake.store import Lake
from include.local.stack.home import REPO
from include.model.decision import Action, Outcome

PIPELINE = "delays"
SAMPLE_EVERY_S = 5.0
MEMORY_LIMIT_GB = 3.0
P50_LIMIT_S, P95_LIMIT_S = 5.0, 8.0


def loop(quick: bool) -> list[Record]:
    """Run the demo in a temporary home and read its lake.

    Args:
        quick: A shorter day.

    Raises:
        RuntimeError: If the demo did not come to a good end; its figures would mean nothing.
    """
    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
        root = Path(folder).resolve()
        most_gb = _run_demo(root, ["--day-s=240", "--fold-days=10"] if quick else [])
        lake = Lake(root / "demo" / "lake")
        return [*_decided_in(lake), *_running_in(lake), _memory(most_gb)]


def _run_demo(home: Path, options: Sequence[str]) -> float:
    """Run the demo to its end and return the most memory that it took, GiB."""
    most, env = 0.0, {**os.environ, "MILLRACE_HOME": str(home)}
    argv = [sys.executable, "-m", "include.local.cli", "demo", *options]
    log = home / "output.log"
    with log.open("wb") as out:
        demo = subprocess.Popen(argv, cwd=REPO, env=env, stdout=out, stderr=subprocess.STDOUT)
        try:
            while demo.poll() is None:
                most = max(most, _pss(home) / 2**30)
                time.sleep(SAMPLE_EVERY_S)
        finally:
            if demo.poll() is None:
                demo.terminate()
                demo.wait()
    if demo.returncode != 0:
        tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise RuntimeError(f"the demo ended with {demo.returncode}:\n{tail}")
    return most


def _pss(home: Path) -> int:
    """Sum up the memory of all processes of a home; a page that several share counts once."""
    total = 0
    for process in psutil.process_iter():
        try:
            if str(home) in process.environ().get("MILLRACE_HOME", "") or str(home) in " ".join(process.cmdline()):
                facts = process.memory_full_info()
                total += getattr(facts, "pss", facts.uss)
        except psutil.Error:
            continue
    return total


def _decided_in(lake: Lake) -> list[Record]:
    """Time from the newest commit of telemetry before a decision is begun to the commit of the decision itself."""
    commits, recorded = _commits(lake, "telemetry/batches"), _commits(lake, "control/decisions")
    evaluations = sorted(d.time.timestamp() for d in DecisionStore(lake).recent(PIPELINE, 1000))
    pairs = zip(evaluations, recorded, strict=True)  # one commit a decision, in their order
    waited = [done - commits[commits <= begun].max() for begun, done in pairs if commits[0] <= begun]
    records = []
    for name, q, limit in (("p50", 0.5, P50_LIMIT_S), ("p95", 0.95, P95_LIMIT_S)):
        value = float(np.quantile(waited, q))
        target, holds = at_most(value, limit)
        figure = f"newest commit of telemetry to decision, {name}"
        records.append(
            Record("stack", "loop", "millrace", figure, round(value, 2), "s", n=len(waited), target=target, holds=holds)
        )
    return records


def _commits(lake: Lake, table: str) -> NDArray[np.float64]:
    return np.array([t.timestamp() for t in arrivals(lake.path(table))["time"].to_pylist()])


def _running_in(lake: Lake) -> list[Record]:
    """Time from a decision to the first batch at the new slots."""
    made = {d.decision_id: d.time for d in DecisionStore(lake).recent(PIPELINE, 1000) if d.action is Action.APPLY}
    ready = [c for c in ReconfigurationStore(lake).recent(PIPELINE, 500) if c.outcome is Outcome.READY]
    spans = [(c.ended - made[c.decision_id]).total_seconds() for c in ready if c.ended and c.decision_id in made]
    gaps = [c.downtime_s for c in ready if c.downtime_s is not None and c.decision_id in made]
    return [
        Record("stack", "loop", "millrace", "decision to new slots running", _median(spans), "s", n=len(spans)),
        Record("stack", "loop", "millrace", "downtime of a change", _median(gaps), "s", n=len(gaps)),
    ]


def _median(values: Sequence[float]) -> float:
    return round(float(np.median(values)), 1)


def _memory(most_gb: float) -> Record:
    target, holds = at_most(most_gb, MEMORY_LIMIT_GB)
    value = round(most_gb, 2)
    return Record(
        "stack", "memory of stack and job", "millrace", "highest pss", value, "GB", target=target, holds=holds
    )

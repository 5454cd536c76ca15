"""Redirected streams between a feed's ingest tables: changes, versions, and a feed that obeys."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.control.launch import roll_back
from millrace.control.profile_signals import stream_counts
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.source_tables import query
from millrace.lake.store import Lake
from millrace.local.feeds.replay_clock import Clock, Replay
from millrace.model.decision import Action, Decision
from millrace.model.deployment import Deployment
from millrace.model.protocols import Cursor
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec
from millrace.optimizers.registry import Role, create
from tests.flights import flights
from tests.include.control.world import NAME, NOON, MemoryPlant, World, world

ROOT = Path(__file__).resolve().parents[3]
REPORT_S = 10


@dataclass
class Feeding(MemoryPlant):
    """Sees the lake's streams, and an app that continues with its first version."""

    spec: PipelineSpec | None = None

    def observe(self, since: Cursor) -> Signals:
        assert self.spec is not None
        streams = stream_counts(self.spec, ControlTables(self.lake), since.until, self.clock.now)
        return replace(super().observe(since), streams=streams, deployment_version=1)


def feeding(home: Path, now: datetime = NOON, **changes: Any) -> World:
    told = {"capacity": 100.0, "ingest": ["north", "south"], "report_s": REPORT_S, "unfinished": 0, **changes}
    w = world(home, admission=told)
    w.clock.now = now
    spec = w.loop.spec
    w.plant = Feeding(w.lake, w.clock, arrival=400.0, spec=spec)
    w.loop.plant = w.plant
    options = spec.admission_options
    assert options is not None
    w.loop.optimizers = {**w.loop.optimizers, "drfm": create("drfm", options, Role.ADMISSION)}
    w.run()
    return w


def report(lake: Lake, first: int, *periods: Mapping[str, int]) -> None:
    rows = [
        {"pipeline": NAME, "time": NOON + timedelta(seconds=n * REPORT_S), "stream": s, "app": "north", "rows": count}
        for n, of in enumerate(periods, first)
        for s, count in of.items()
    ]
    lake.append("telemetry/streams", rows)


def latest(lake: Lake) -> Deployment:
    found = DeploymentStore(lake).latest(NAME)
    assert found is not None
    return found


@pytest.fixture
def batches() -> Iterator[int]:
    """Increasing batch numbers."""
    return iter(range(31, 100_000, 20))


def evaluate(w: World, batches: Iterator[int], more: int = 19) -> Decision:
    number = next(batches)
    w.report(number, number + more)
    decision = w.loop.decide(w.loop.observe())
    w.loop.apply(decision.decision_id)
    return decision


def evaluate_after(w: World, batches: Iterator[int], first: int, rows: Mapping[str, int]) -> Decision:
    """The evaluation after three periods of these rows each."""
    report(w.lake, first, *[rows] * 3)
    w.clock.wait(60)
    return evaluate(w, batches)


def test_streams_of_a_full_table_are_redirected(tmp_path: Path, batches: Iterator[int]) -> None:
    w = feeding(tmp_path)
    first = evaluate_after(w, batches, 0, {"a": 500, "b": 300})
    assert (first.action, first.reason_code) == (Action.APPLY, "streams_to_admit")
    assert first.sentence.startswith("delays: 2 streams to other ingest tables: admit 2 streams on 1 ingest node")
    assert dict(latest(w.lake).ingest) == {"a": 0, "b": 0}
    second = evaluate_after(w, batches, 3, {"a": 900, "b": 800})
    assert (second.action, second.reason_code) == (Action.APPLY, "streams_to_redirect"), second.sentence
    assert sorted(latest(w.lake).ingest.values()) == [0, 1]
    assert latest(w.lake).apps == DeploymentStore(w.lake).get(NAME, 1).apps  # type: ignore[union-attr]
    assert w.plant.applied == [2, 3]


def test_streams_that_stay_create_no_version_and_no_advice(tmp_path: Path, batches: Iterator[int]) -> None:
    w = feeding(tmp_path)
    evaluate_after(w, batches, 0, {"a": 500, "b": 300})
    held = evaluate_after(w, batches, 3, {"a": 500, "b": 300})
    assert (held.action, latest(w.lake).version) == (Action.HOLD, 2), "an app that did not change is measured already"
    assert "Streams stay: 2 on 1 ingest node" in held.sentence and "Advice" not in held.sentence
    assert not any(p.planned for p in held.proposals), "nothing for MLflow"


def test_streams_start_from_the_state_that_a_person_rolled_back_to(tmp_path: Path, batches: Iterator[int]) -> None:
    w = feeding(tmp_path)
    evaluate_after(w, batches, 0, {"a": 500, "b": 300})
    roll_back(w.tables, NAME, 1, "ann", w.clock.now, None)
    assert dict(latest(w.lake).ingest) == {}
    again = evaluate_after(w, batches, 3, {"a": 500, "b": 300})
    assert again.reason_code == "streams_to_admit"
    assert dict(latest(w.lake).ingest) == {"a": 0, "b": 0}


@pytest.mark.slow
def test_redirected_streams_lose_and_duplicate_no_row(
    tmp_path: Path,
) -> None:
    clock = Clock(fold_days=7, days=1, day_s=24, tick_s=0.2)
    w = feeding(tmp_path, datetime.now(UTC), capacity=250.0, report_s=1)
    tables = [tmp_path / "north", tmp_path / "south"]
    command = [
        sys.executable,
        "-m",
        "millrace.local.feeds.streams",
        *(f"--ingest={t}" for t in tables),
        f"--pipeline={NAME}",
    ]
    command += [f"--lake={w.lake.location}", "--fold-days=7", "--day-s=24", "--tick-s=0.2", "--parts=1", "--report-s=1"]
    feed = subprocess.Popen(
        command, cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    seen, reasons, numbers = -1, [], itertools.count(31)
    while feed.poll() is None:
        if w.lake.version("telemetry/streams") > seen:
            seen = w.lake.version("telemetry/streams")
            w.clock.now = datetime.now(UTC)
            reasons.append(evaluate(w, numbers, more=0).reason_code)
    out, err = feed.communicate()
    assert feed.returncode == 0, err
    assert "streams_to_admit" in reasons and "streams_to_redirect" in reasons
    assert "was redirected to" in out
    ids = [query("select row_id from t", t=t)["row_id"].to_pylist() for t in tables]
    assert all(ids), "both tables had their share"
    assert sorted(i for of in ids for i in of) == list(range(1, Replay(clock, flights()).rows + 1))

"""A home that version 411c2c6 wrote goes on: its lake, a Decision that waits for a person, memories, a model, records.

``former_home.tar.gz`` holds what that version's own code wrote: ``tuned`` (eight evaluations under ``flow``, the last
of which waits for approval), ``admission`` (drfm's), ``join`` (a stream join whose driver was killed between results'
and Spark's commit; ``tests/jobs/test_stream_join.py`` goes on with it) and ``model.skops``.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import psutil
import pytest

from millrace import wiring
from millrace.control.evaluation import GateResult
from millrace.control.loop import ControlLoop
from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.model.decision import Action, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.errors import NotReady
from millrace.model.protocols import Cursor
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec
from millrace.optimizers import registry
from millrace.optimizers.conttune.state import AppState
from millrace.optimizers.registry import Role
from millrace.reporting.tracker import MlflowTracker
from millrace.run_folder import driver_records
from millrace.run_folder.arguments import recognise
from millrace.run_folder.discovery import python_driver

ARCHIVE = Path(__file__).with_name("former_home.tar.gz")
SPEC = PipelineSpec.model_validate(
    {
        "name": "delays",
        "script": "delays.py",
        "mode": "auto",
        "period_s": 60.0,
        "tuner": {"name": "flow"},
        "slots": {"min": 1, "max": 8, "start": 2},
    }
)
SENTENCES = [
    "300 rows/s arrive and 2 slots can process 433 rows/s: no lower level is sure to suffice.",
    "320 rows/s arrive and 2 slots can process 433 rows/s: no lower level is sure to suffice.",
    "310 rows/s arrive and 2 slots can process 433 rows/s: no lower level is sure to suffice.",
    "delays: slots 2 -> 6: 650 rows/s arrive and 2 slots can process 433 rows/s: 6 slots can process 1,101 rows/s at "
    "59 % utilisation.",
    "delays: slots 6 -> 5: Only 700 rows/s arrive and 6 slots can process 1,101 rows/s: 5 slots can process 943 rows/s "
    "at 74 % utilisation.",
    "690 rows/s arrive and 5 slots can process 943 rows/s, 73 % utilisation: nothing to change.",
    "700 rows/s arrive and 5 slots can process 943 rows/s, 74 % utilisation: nothing to change.",
    "Waits for approval: delays: slots 5 -> 8: 1,250 rows/s arrive and 5 slots can process 943 rows/s: 8 slots can "
    "process 1,406 rows/s at 89 % utilisation.",
]

ARGV = (
    *("--pipeline", "p", "--app", "a", "--generation", "3", "--version", "1", "--slots", "2", "--epoch", "0"),
    *("--run-dir", "/srv/run", "--lake", "/srv/lake", "--period", "60.0"),
    *("--ready-deadline", "120.0", "--stop-deadline", "30.0", "--", "/srv/jobs/orders.py", "--source=x"),
)


@dataclass
class Plant:
    """Measures nothing, and takes every Deployment for running."""

    applied: list[Deployment] = field(default_factory=list)

    def observe(self, since: Cursor) -> Signals:
        raise NotReady("nothing new")

    def apply(self, target: Deployment) -> tuple[Reconfiguration, ...]:
        self.applied.append(target)
        return ()


class Gate:
    """Lets all telemetry pass."""

    def check(self, since: Cursor, now: datetime) -> GateResult:
        return GateResult(True, read_to=since)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    shutil.unpack_archive(ARCHIVE, tmp_path)
    return tmp_path


def test_decisions_are_read_as_they_were_written(home: Path) -> None:
    tables = ControlTables(Lake(home / "tuned" / "lake"))
    decisions = sorted(tables.decisions.recent("delays"), key=lambda d: d.time)
    assert [d.sentence for d in decisions] == SENTENCES
    assert decisions[-1].action is Action.AWAIT and decisions[3].guards and decisions[3].predicted
    assert all(d.signals is not None and d.signals.apps for d in decisions)
    versions = [tables.deployments.get("delays", number) for number in (1, 2, 3)]
    assert [d.apps["delays"].slots for d in versions if d is not None] == [2, 6, 5]
    assert sorted({o.parallelism for o in tables.observations.recent("delays")}) == [2, 5, 6]
    changes = tables.reconfigurations.recent("delays", 9)
    assert [(c.to_version, c.downtime_s) for c in changes] == [(3, 6.0), (2, 6.0)]


def test_replay_repeats_every_decision(home: Path) -> None:
    tables = ControlTables(Lake(home / "tuned" / "lake"))
    decisions = sorted(tables.decisions.recent("delays"), key=lambda d: d.time)
    backtest = wiring.replay(SPEC, tables, "flow", {}, None, decisions[-2].time + timedelta(seconds=1))
    assert [k.replayed.sentence for k in backtest.evaluations] == SENTENCES[:-1]
    assert backtest.agreed == 7 and backtest.modelled == 0


def test_waiting_decision_is_applied_once_a_person_agrees(home: Path) -> None:
    tables, plant = ControlTables(Lake(home / "tuned" / "lake")), Plant()
    waiting = next(d for d in tables.decisions.recent("delays") if d.action is Action.AWAIT)
    spec = SPEC.model_copy(update={"mode": "approve"})
    loop = ControlLoop(
        spec, tables, Gate(), plant, {}, MlflowTracker(None), lambda: waiting.time + timedelta(minutes=1)
    )
    loop.apply(waiting.decision_id)
    assert [(d.version, d.apps["delays"].slots) for d in plant.applied] == [(4, 8)]


def test_memories_are_gone_on_with(home: Path) -> None:
    tables = ControlTables(Lake(home / "tuned" / "lake"))
    decisions = sorted(tables.decisions.recent("delays"), key=lambda d: d.time)
    memory = tables.memories.latest("delays", "flow", before=decisions[-1].time)
    current = tables.deployments.latest("delays")
    assert memory and current is not None and decisions[-1].signals is not None
    proposal, after = registry.create("flow", {}).propose(decisions[-1].signals, current, memory)
    assert proposal == decisions[-1].proposals[0]
    written = tables.memories.latest("delays", "flow")
    # keys may have come and gone since: what this version reads in both is the same, but for what it keeps of one rate
    states = [AppState.read(memory["apps"]["delays"]).at_rate(0.0) for memory in (after, written)]
    assert states[0] == states[1] and states[0].operators["delays"].fixed_s


def test_streams_admitted_before_stay_where_they_are(home: Path) -> None:
    tables = ControlTables(Lake(home / "admission" / "lake"))
    (decision,) = tables.decisions.recent("delays")
    current = tables.deployments.latest("delays")
    memory = tables.memories.latest("delays", "drfm")
    assert sorted(memory["streams"]) == ["EWR/UA", "JFK/B6"]
    assert decision.signals is not None and decision.signals.streams is not None and current is not None
    options = {"capacity": 1.0, "sizing": {"query_s": 2.0, "headroom": 0.1}, "options": {"ahead": 16}, "streams": {}}
    signals = decision.signals
    assert signals.streams is not None
    counts = signals.streams
    passed = counts.until - counts.since
    later = replace(signals, streams=replace(counts, since=counts.until, until=counts.until + passed))
    proposal, after = registry.create("drfm", options, Role.ADMISSION).propose(later, current, memory)
    assert proposal.reason_code == "streams_stay"
    assert after["until"] == (counts.until + passed).isoformat() and sorted(after["streams"]) == ["EWR/UA", "JFK/B6"]


def test_model_predicts_as_it_did(home: Path) -> None:
    from skops import io

    file = home / "model.skops"
    model = io.load(file, trusted=io.get_untrusted_types(file=file))
    assert model.predict(np.array([[2.0], [5.0], [6.0]])) == pytest.approx([431.497, 941.499, 1101.0], rel=1e-4)


def test_driver_that_runs_is_recognised(home: Path) -> None:
    command_line = ["python", "/srv/millrace/jobs/run_script.py", *ARGV]
    arguments = recognise(command_line)
    assert arguments is not None and (arguments.pipeline, arguments.app, arguments.generation) == ("p", "a", 3)
    file, me = home / "join" / "run" / "p" / "a" / "generation-1.json", psutil.Process()
    written = json.loads(file.read_text()) | {"pid": me.pid, "process_started": me.create_time()}
    file.write_text(json.dumps(written))
    record = driver_records.read(home / "join" / "run", "p", "a", 1)
    process = python_driver(record)
    assert record is not None and (record.version, record.slots, record.advanced_s) == (1, 2, None)
    assert process is not None and process.alive()

"""The cost of moving state partitions, from drivers' samples before and after the move."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from millrace.control.change_results import record_results
from millrace.control.placement_cost import placement_cost
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import DecisionStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.row_codec import batch_row
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision, Outcome, Proposal, Reconfiguration
from millrace.model.deployment import Change
from millrace.model.placement import STATEFUL_BATCH, PartitionLoads
from millrace.model.signals import AppSignals, Signals
from millrace.model.telemetry import BatchMetrics
from tests.include.control.test_partition_loads import run, sampled
from tests.include.control.world import NAME, NOON, spec

LATER = NOON + timedelta(seconds=60)
CHANGE = Reconfiguration(
    NAME, NAME, "d1", "T1", 1, 2, 2, NOON + timedelta(seconds=5), NOON + timedelta(seconds=6), 0.0, Outcome.READY
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Partition 1 moves from executor 7 to 8 at the fifth second, and the batch after it takes 9 s."""
    lake = Lake(tmp_path)
    for batch in range(5):
        sampled(lake, run(batch, 0, state_bytes=5_000_000), run(batch, 1, state_bytes=2_000_000))
    for batch in range(7, 9):
        sampled(lake, run(batch, 0), run(batch, 1, executor="8"))
    for second, took_ms in ((2, 30_000), (7, 9_000), (8, 3_000)):
        ended, duration = NOON + timedelta(seconds=second), {"triggerExecution": took_ms}
        batch = BatchMetrics(NAME, NAME, "q", ended, 2, 1, second, 2, 100, durations_ms=duration)
        lake.append("telemetry/batches", [batch_row(batch)])
    return lake


def test_cost_includes_the_moves_the_loaded_state_and_the_longest_batch(lake: Lake) -> None:
    assert placement_cost(lake, CHANGE, LATER) == {
        "moved_partitions": 1.0, "loaded_mb": 2.0, "longest_batch_s": 9.0,
    }  # fmt: skip


def test_cost_is_unknown_if_one_side_was_not_sampled(lake: Lake) -> None:
    assert placement_cost(lake, CHANGE, CHANGE.started) == {}
    assert placement_cost(lake, replace(CHANGE, generation=3), LATER) == {}
    assert placement_cost(lake, replace(CHANGE, started=NOON - timedelta(hours=1)), LATER) == {}


def test_size_that_was_never_measured_is_left_out(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    sampled(lake, run(1, 0), run(7, 0, executor="8"))
    assert placement_cost(lake, CHANGE, LATER) == {"moved_partitions": 1.0}


def test_cost_is_shown_with_the_effect_of_a_placement(lake: Lake) -> None:
    step = Change(NAME, "placement", 0, 1, "q/0", partition=1)
    proposal = Proposal("albic", (step,), "partitions_to_move", "", {STATEFUL_BATCH: 1.0})
    target = spec(placement={}, submit={"master": "embedded"}).first_deployment()
    decision = Decision("d1", NAME, NOON, Action.APPLY, "partitions_to_move", "", proposals=(proposal,), target=target)
    DecisionStore(lake).record(replace(decision, predicted=proposal.predicted))
    ReconfigurationStore(lake).record(CHANGE)
    groups = PartitionLoads(NAME, LATER, LATER, 9, ("q/0",), (0,), (0,), (1.5,), (0.0,), (9.0,), (1,))
    app = AppSignals(NAME, 2, 2, False, 210.0, 210.0, 0, 0.0, 10, 9, 1.0, 0.0, 0.5, None)
    signals = Signals(NAME, NOON, LATER, 7, 2, (app,), partition_loads=groups)
    ((done, _),) = record_results(ControlTables(lake), signals)
    assert done.achieved == {STATEFUL_BATCH: 1.5, "moved_partitions": 1, "loaded_mb": 2, "longest_batch_s": 9}

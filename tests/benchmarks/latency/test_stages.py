"""When each step of a change happened."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.latency.stages import Change, changes_up, waits_for_decisions
from millrace.lake.control_tables import ControlTables
from millrace.lake.source_tables import arrivals
from millrace.lake.store import Lake
from millrace.model.decision import LIVE, Action, Decision, Outcome, Reconfiguration
from millrace.model.deployment import Change as FieldChange
from millrace.model.deployment import Deployment
from millrace.model.spec import PipelineSpec
from millrace.pipelines.catalog import load
from millrace.places import PACKAGE

BEGUN = datetime.now(UTC)


@pytest.fixture
def spec(tmp_path: Path) -> PipelineSpec:
    return load(PACKAGE / "pipelines" / "specs" / "delays.yaml", {"MILLRACE_HOME": str(tmp_path)})


@pytest.fixture
def tables(tmp_path: Path) -> ControlTables:
    return ControlTables(Lake(tmp_path / "lake"))


def _seconds(seconds: float) -> datetime:
    return BEGUN + timedelta(seconds=seconds)


def _batch(tables: ControlTables, slots: int, ended_s: float) -> None:
    """Record a batch of two seconds."""
    row = {"pipeline": "delays", "app": "delays", "time": _seconds(ended_s), "slots": slots, "rows_in": 9}
    tables.lake.append("telemetry/batches", [{**row, "durations_ms": {"triggerExecution": 2000}}])


def _change(tables: ControlTables, base: Deployment, slots: int, begun_s: float) -> Deployment:
    """Record a change that was decided and took four seconds."""
    app = base.apps["delays"]
    target = base.with_changes((FieldChange("delays", "slots", app.slots, slots),))
    name = f"decision-{slots}-{begun_s:g}"
    decision = Decision(name, "delays", _seconds(begun_s), Action.APPLY, "under_provisioned", "", target=target)
    tables.decisions.record(decision)
    made = tables.deployments.commit(replace(target, decision_id=name), base.version)
    tables.reconfigurations.record(
        Reconfiguration(
            "delays", "delays", name, LIVE, base.version, made.version, 1,
            _seconds(begun_s + 1), _seconds(begun_s + 4), 0.0, Outcome.READY,
        )
    )  # fmt: skip
    return made


def test_scale_ups_are_grouped_by_the_number_of_new_executors(spec: PipelineSpec, tables: ControlTables) -> None:
    _batch(tables, 2, 5.0)
    _batch(tables, 4, 15.0)
    _batch(tables, 4, 17.0)
    version = tables.deployments.commit(spec.first_deployment(), None)
    version = _change(tables, version, 2, 1.0)
    version = _change(tables, version, 4, 10.0)
    version = _change(tables, version, 2, 20.0)
    _change(tables, version, 8, 30.0)
    changes = changes_up(spec, tables.lake, [BEGUN.timestamp() + 12.5, BEGUN.timestamp() + 31.5])
    assert [change.executors for change in changes] == [1, 3]
    assert [change.registered - change.decision for change in changes] == pytest.approx([4.0, 4.0])
    assert changes[0].steps["registered to first batch"] == pytest.approx(3.0)
    assert changes[1].batch is None
    assert changes[1].steps["executors started to registered"] == pytest.approx(2.5)


def test_step_with_an_unknown_end_is_left_out() -> None:
    change = Change(1, commit=None, decision=10.0, version=10.5, started=None, registered=14.0, batch=16.0)
    assert change.steps == {"decision to version": 0.5, "registered to first batch": 2.0}


def test_wait_for_a_decision_starts_with_the_newest_telemetry(tables: ControlTables) -> None:
    tables.lake.append("telemetry/batches", [{"pipeline": "delays", "app": "delays", "time": BEGUN}])
    (committed,) = arrivals(tables.lake.path("telemetry/batches"))["time"].to_pylist()
    tables.decisions.record(Decision("a", "delays", committed, Action.HOLD, "quiet", ""))
    (wait,) = waits_for_decisions(tables.lake, "delays")
    assert 0 <= wait < 5


def test_pipeline_without_decisions_waits_for_none(tables: ControlTables) -> None:
    assert waits_for_decisions(tables.lake, "delays") == []

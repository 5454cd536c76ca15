from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from millrace.control.change_results import record_results
from millrace.control.spark_plant import SparkPlant
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import DecisionStore
from millrace.lake.deployments import DeploymentStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision, Outcome, Reconfiguration
from millrace.model.errors import Conflict
from millrace.model.protocols import Cursor
from millrace.model.signals import AppSignals, Capacity, Signals
from tests.include.control.synthetic import START, App, lake_of, spec

PREDICTED = {"throughput_rows_per_s": 400.0, "utilisation_ratio": 0.7, "unheard_of": 1.0}
CHANGE = Reconfiguration(
    "delays", "delays", "d1", "T2", 1, 2, 2, START, START + timedelta(seconds=8), 6.0, Outcome.READY
)
APP = AppSignals("delays", 4, 4, False, 210.0, 210.0, 0, 0.0, 10, 9, 1.0, 0.0, 0.5, Capacity(4, 1.0, 300.0, 9.0, 9))
SIGNALS = Signals("delays", START, START + timedelta(seconds=60), 7, 2, (APP,))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    DecisionStore(lake).record(
        Decision("d1", "delays", START, Action.APPLY, "under_provisioned", "More.", predicted=PREDICTED)
    )
    ReconfigurationStore(lake).record(replace(CHANGE, ended=None, outcome=Outcome.OPEN))
    ReconfigurationStore(lake).record(CHANGE)
    return lake


def test_verify_records_the_effect_of_a_settled_change(lake: Lake) -> None:
    ((done, decision),) = record_results(ControlTables(lake), SIGNALS)
    assert decision.decision_id == done.decision_id
    assert done.achieved == {"throughput_rows_per_s": 300.0, "utilisation_ratio": 0.7}
    (stored,) = ReconfigurationStore(lake).recent("delays")
    assert stored == done


def test_verify_judges_a_change_after_versions_that_changed_something_else(lake: Lake) -> None:
    ((done, _),) = record_results(ControlTables(lake), replace(SIGNALS, deployment_version=4))
    assert done.achieved["throughput_rows_per_s"] == 300.0


def test_verify_when_repeated_then_a_change_is_judged_once(lake: Lake) -> None:
    record_results(ControlTables(lake), SIGNALS)
    later = replace(SIGNALS, apps=(replace(APP, capacity=Capacity(4, 1.0, 999.0, 9.0, 9)),))
    assert record_results(ControlTables(lake), later) == ()
    assert ReconfigurationStore(lake).recent("delays")[0].achieved["throughput_rows_per_s"] == 300.0


@pytest.mark.parametrize(
    "signals",
    [
        replace(SIGNALS, settling=True),
        replace(SIGNALS, deployment_version=1),
        replace(SIGNALS, apps=(replace(APP, capacity=None),)),
        replace(SIGNALS, apps=(replace(APP, parallelism=2),)),
        replace(SIGNALS, apps=()),
    ],
    ids=["settling", "another version ran", "no capacity yet", "another p ran", "no app"],
)
def test_verify_when_the_change_cannot_be_judged_yet_then_waits(lake: Lake, signals: Signals) -> None:
    assert record_results(ControlTables(lake), signals) == ()
    assert ReconfigurationStore(lake).recent("delays")[0].achieved == {}


@pytest.mark.parametrize("other", [{"decision_id": None}, {"outcome": Outcome.FAILED}, {"decision_id": "unknown"}])
def test_verify_judges_successful_decisions_only(lake: Lake, other: dict[str, object]) -> None:
    begun = START + timedelta(seconds=20)
    newer = replace(CHANGE, started=begun, ended=begun + timedelta(seconds=5), **other)  # type: ignore[arg-type]
    ReconfigurationStore(lake).record(newer)
    assert record_results(ControlTables(lake), SIGNALS) == ()


class Recorder:
    def __init__(self) -> None:
        self.calls = 0

    def reconcile(self) -> tuple[Reconfiguration, ...]:
        self.calls += 1
        return (CHANGE,)


def test_plant_when_observed_then_collects_at_its_clock(tmp_path: Path) -> None:
    rows = App().run(100, 900)
    lake = lake_of(tmp_path, rows)
    plant = SparkPlant(spec(), ControlTables(lake), Recorder(), clock=lambda: rows[-1].time)
    assert plant.observe(Cursor()).until == rows[-1].time


def test_plant_reconciles_only_the_newest_version(tmp_path: Path) -> None:
    lake, reconciler = lake_of(tmp_path, []), Recorder()
    plant = SparkPlant(spec(), ControlTables(lake), reconciler, clock=lambda: START)
    first = DeploymentStore(lake).latest("delays")
    assert first is not None
    assert plant.apply(first) == (CHANGE,)
    second = DeploymentStore(lake).commit(first, 1)
    with pytest.raises(Conflict):
        plant.apply(first)
    assert reconciler.calls == 1
    plant.apply(second)
    with pytest.raises(Conflict):
        plant.apply(replace(second, version=3))
    assert reconciler.calls == 2

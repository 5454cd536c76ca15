"""The documentation of the lake's tables matches the schemas."""

from __future__ import annotations

import dataclasses

import pytest

from millrace.lake.schemas import DOCUMENT, TABLES, document
from millrace.model.decision import Decision, Reconfiguration
from millrace.model.signals import Observation
from millrace.model.telemetry import AppMetrics, BatchMetrics, ExecutorRun, PartitionRun

CONTRACTS = {
    "telemetry/batches": BatchMetrics,
    "telemetry/apps": AppMetrics,
    "telemetry/executors": ExecutorRun,
    "telemetry/partitions": PartitionRun,
    "control/decisions": Decision,
    "control/reconfigurations": Reconfiguration,
    "control/observations": Observation,
}


def test_page_of_tables_matches_the_schemas() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run: python -m millrace.lake.schemas"


@pytest.mark.parametrize("table", TABLES)
def test_table_names_pipeline_and_time_first_and_describes_every_column(table: str) -> None:
    schema = TABLES[table]
    assert schema.columns.names[:2] == ["pipeline", "time"]
    assert ("date" in schema.columns.names) is schema.growing
    assert set(schema.meanings) == set(schema.columns.names) and all(schema.meanings.values())


@pytest.mark.parametrize(("table", "contract"), CONTRACTS.items())
def test_table_has_a_column_for_each_field_of_its_contract(table: str, contract: type) -> None:
    elsewhere = {"models", "mlflow_run_id"} if contract is Decision else set()  # in control/runs
    assert {field.name for field in dataclasses.fields(contract)} - elsewhere <= set(TABLES[table].columns.names)

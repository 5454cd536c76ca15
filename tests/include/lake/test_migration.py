"""A lake from an earlier version is migrated; a lake from a later version is refused with a remedy."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from millrace.lake.fenced_table import FencedTable
from millrace.lake.maintenance import maintain
from millrace.lake.migration import migrate, migrate_all
from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.schemas import TABLES
from millrace.lake.store import Lake
from millrace.model.errors import MillraceError

NOW = datetime(2026, 3, 3, 12, tzinfo=UTC)
TABLE = "control/reconfigurations"


def older(lake: Lake, table: str, *lacking: str) -> None:
    """Make a table as an older version wrote it, without some columns and without any property."""
    schema = TABLES[table]
    columns = [field for field in schema.columns if field.name not in lacking]
    lake.path(table).mkdir(parents=True)
    DeltaTable.create(str(lake.path(table)), schema=pa.schema(columns), partition_by=list(schema.partition_by) or None)


def test_migrate_adds_columns_and_properties_once(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    older(lake, TABLE, "generation", "achieved")
    assert migrate(lake, TABLE) and not migrate(lake, TABLE)
    assert ReconfigurationStore(lake).newest_generation("p", "a") == 0
    lake.create("control/deployments")
    assert not migrate(lake, "control/deployments")


def test_whole_lake_of_an_earlier_version_is_readable_by_the_present_one(tmp_path: Path) -> None:
    migrate_all(Lake(tmp_path / "none"))
    for table, schema in TABLES.items():
        later = [field.name for field in schema.columns if field.nullable and field.name not in schema.partition_by]
        older(Lake(tmp_path), table, *later[-1:])
    migrate_all(Lake(tmp_path))
    lake = Lake(tmp_path)
    for table, schema in TABLES.items():
        columns = ", ".join(f'"{field.name}"' for field in schema.columns)
        assert lake.rows(f"select {columns} from {table.partition('/')[2]}", table) == []
    versions = [lake.version(table) for table in TABLES]
    migrate_all(Lake(tmp_path))
    assert [Lake(tmp_path).version(table) for table in TABLES] == versions, "what is up to date is left alone"


def test_maintain_migrates_a_table_of_an_earlier_version(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    older(lake, "telemetry/apps", "up_s")
    maintain(lake, "telemetry/apps", NOW.date())
    version = lake.version("telemetry/apps")
    maintain(lake, "telemetry/apps", NOW.date())
    assert lake.version("telemetry/apps") == version
    lake.create("control/runs")
    table, fresh = (DeltaTable(str(lake.path(name))).metadata() for name in ("telemetry/apps", "control/runs"))
    assert table.configuration == fresh.configuration and table.partition_columns == ["pipeline", "date"]
    assert lake.rows("select up_s from apps", "telemetry/apps") == []


def test_lake_of_a_later_version_is_refused_with_a_remedy(tmp_path: Path) -> None:
    lake, table = Lake(tmp_path), "telemetry/apps"
    lake.create(table)
    later = {"millrace.version": "2"}
    DeltaTable(str(lake.path(table))).alter.set_table_properties(later, raise_if_not_exists=False)
    row = {"pipeline": "p", "time": NOW, "app": "a"}
    for use in (
        lambda lake: lake.append(table, [row]),
        lambda lake: lake.rows("select * from apps", table),
        lambda lake: FencedTable(lake, table, "f", 1).committed(["a"]),
        migrate_all,
    ):
        with pytest.raises(MillraceError, match="upgrade Millrace"):
            use(Lake(tmp_path))
    assert Lake(tmp_path).version(table) == 1


def test_append_adds_a_column_that_the_table_lacks(tmp_path: Path) -> None:
    table, lake = "control/decisions", Lake(tmp_path)
    older(lake, table, "cursor_table")
    plain = {"pipeline": "p", "time": NOW, "action": "hold"}
    old = TABLES[table].columns.remove(TABLES[table].columns.get_field_index("cursor_table"))
    write_deltalake(
        str(lake.path(table)), pa.Table.from_pylist([{**plain, "decision_id": "1", "date": NOW.date()}], old),
        mode="append",
    )  # fmt: skip
    other = Lake(tmp_path)
    assert other.version(table) == 1 and other.rows("select decision_id from decisions", table)
    lake.append(table, [{**plain, "decision_id": "2", "cursor_table": "t"}], {"d": 2})
    other.append(table, [{**plain, "decision_id": "3", "cursor_table": "t"}], {"d": 3})
    found = read_recent(lake, RowQuery(table, "p", 9)).rows.sort_by("decision_id")
    assert found["cursor_table"].to_pylist() == [None, "t", "t"]


def test_append_when_the_table_has_an_extra_column_then_it_is_null(tmp_path: Path) -> None:
    table, lake = "telemetry/apps", Lake(tmp_path)
    columns = TABLES[table].columns.append(pa.field("of_a_later_version", pa.string()))
    lake.path(table).mkdir(parents=True)
    DeltaTable.create(str(lake.path(table)), schema=columns, partition_by=["pipeline", "date"])
    lake.append(table, [{"pipeline": "a", "time": NOW, "app": "a", "generation": 1}])
    assert Lake(tmp_path).rows("select pipeline, generation from apps", table) == [{"pipeline": "a", "generation": 1}]

"""Rows expire in whole days. Rows that a pipeline still needs to resume stay."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import new_decision_id
from millrace.lake.maintenance import last_upkeep, maintain
from millrace.lake.retention import expire
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.protocols import Cursor
from millrace.model.signals import Observation, Signals

NOW = datetime(2026, 3, 3, 12, tzinfo=UTC)
LIMIT = date(2026, 3, 1)
TABLE = "telemetry/apps"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def days_ago(days: int) -> datetime:
    return NOW - timedelta(days=days)


def append(lake: Lake, time: datetime, pipeline: str = "tiny") -> None:
    lake.append(TABLE, [{"pipeline": pipeline, "time": time, "app": "a", "generation": 1}])


def days(lake: Lake, table: str, pipeline: str = "tiny") -> list[date]:
    name = table.rsplit("/", 1)[-1]
    return [
        row["date"]
        for row in Lake(lake.location).rows(f"select pipeline, date from {name} order by date", table)
        if row["pipeline"] == pipeline
    ]


def decision(time: datetime, *, evaluated: bool = True, measured: bool = False) -> Decision:
    signals = Signals("tiny", time, time, 1, 1, ()) if measured else None
    cursor: dict[str, Any] = {"cursor_version": 1, "cursor_until": time} if evaluated else {}
    return Decision(
        new_decision_id(time, "tiny"), "tiny", time, Action.HOLD, "in_band", "well", signals=signals, **cursor
    )


def test_expire_deletes_whole_days_without_reading_a_row(lake: Lake) -> None:
    for number in range(5):
        append(lake, days_ago(number))
        append(lake, days_ago(number), "o'clock")
    for file in lake.path(TABLE).rglob("*.parquet"):
        file.write_bytes(b"")
    assert expire(lake, TABLE, LIMIT) == 4
    assert active_days(lake) == {LIMIT, date(2026, 3, 2), date(2026, 3, 3)}
    assert expire(lake, TABLE, LIMIT) == 0


def active_days(lake: Lake) -> set[date]:
    actions = DeltaTable(str(lake.path(TABLE))).get_add_actions(flatten=True)
    return set(actions["partition.date"].to_pylist())


def test_expire_when_nothing_is_old_then_makes_no_commit(lake: Lake) -> None:
    append(lake, NOW)
    before = lake.version(TABLE)
    assert expire(lake, TABLE, LIMIT) == 0
    assert lake.version(TABLE) == before


def test_expire_when_a_table_has_no_days_then_leaves_it_alone(lake: Lake) -> None:
    lake.append("control/deployments", [{"pipeline": "p", "time": days_ago(900), "version": 1, "content": "{}"}])
    assert expire(lake, "control/deployments", LIMIT) == 0


def test_expire_while_writers_append_lets_all_continue(lake: Lake) -> None:
    for number in range(3, 30):
        append(lake, days_ago(number))
    started, errors = threading.Barrier(3), []

    def work() -> None:
        try:
            own = Lake(lake.location)
            started.wait()
            for _ in range(25):
                append(own, NOW)
        except Exception as error:
            errors.append(error)

    def keep() -> None:
        try:
            started.wait()
            for number in range(28, 2, -5):
                expire(Lake(lake.location), TABLE, days_ago(number).date())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=target) for target in (work, work, keep)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert days(lake, TABLE) == [days_ago(3).date()] + [NOW.date()] * 50


def test_expire_keeps_rows_that_a_stopped_pipeline_resumes_from(lake: Lake) -> None:
    tables = ControlTables(lake)
    behind = decision(days_ago(900), evaluated=False)
    made = [
        behind,
        decision(days_ago(850)),
        decision(days_ago(800), measured=True),
        decision(days_ago(700)),
        decision(days_ago(650)),
        decision(days_ago(600), evaluated=False),
        decision(days_ago(500), evaluated=False),
    ]
    for one in made:
        tables.decisions.record(one)
        tables.decisions.record_run(one, "run", {})
    content = Deployment("tiny", 1, False, {"tiny": AppDeployment("a.py", (), 1, 1024, 8, {})})
    tables.deployments.commit(replace(content, decision_id=behind.decision_id), None)
    for table in ("control/decisions", "control/runs"):
        assert expire(lake, table, LIMIT) == 3
    kept = [days_ago(age).date() for age in (900, 800, 650, 500)]
    assert days(lake, "control/decisions") == days(lake, "control/runs") == kept
    fresh = ControlTables(Lake(lake.location)).decisions
    assert fresh.cursor("tiny") == Cursor(1, days_ago(650), None)
    assert fresh.last("tiny") == made[-1] and fresh.get(behind.decision_id) == behind
    measured = fresh.last_measured("tiny")
    assert measured is not None and measured.time == days_ago(800)


def test_expire_keeps_each_optimizers_newest_memory_and_each_levels_newest_points(lake: Lake) -> None:
    tables = ControlTables(lake)
    for age in (900, 800, 10):
        tables.memories.record("tiny", "now", f"d{age}", days_ago(age), {"age": age})
    for age in (900, 800):
        tables.memories.record("tiny", "then", f"d{age}", days_ago(age), {"age": age})
        tables.observations.add("tiny", [Observation("a", 2, 100.0, 1.0, 1, days_ago(age))], "looks", 900 - age)
    assert expire(lake, "control/memory", LIMIT) == 2
    assert expire(lake, "control/observations", LIMIT) == 1
    fresh = ControlTables(Lake(lake.location))
    assert fresh.memories.latest("tiny", "now") == {"age": 10}
    assert fresh.memories.latest("tiny", "then") == {"age": 800}
    assert [o.time for o in fresh.observations.recent("tiny")] == [days_ago(800)]


def test_maintain_deletes_old_rows_and_records_it(lake: Lake) -> None:
    for number in range(5):
        append(lake, days_ago(number))
    assert last_upkeep(lake, TABLE) is None
    done = maintain(lake, TABLE, NOW.date(), keep_days=2)
    assert (done.expired, done.files_before, done.files_after) == (2, 5, 3)
    noted = last_upkeep(lake, TABLE)
    assert noted is not None and noted[1] == done
    assert maintain(lake, TABLE, NOW.date(), keep_days=None).expired == 0
    assert days(lake, TABLE) == [days_ago(2).date(), days_ago(1).date(), NOW.date()]


def test_maintain_when_a_day_has_no_file_left_then_deletes_its_folder(lake: Lake) -> None:
    append(lake, days_ago(5))
    append(lake, NOW)
    maintain(lake, TABLE, NOW.date(), keep_days=2)
    for file in lake.path(TABLE).glob(f"pipeline=tiny/date={days_ago(5).date()}/*.parquet"):
        file.unlink()  # as the vacuum does a day later
    maintain(lake, TABLE, NOW.date(), keep_days=2)
    assert [folder.name for folder in lake.path(TABLE).glob("pipeline=tiny/date=*")] == [f"date={NOW.date()}"]


def test_maintain_forgets_old_ids_if_each_is_used_once(lake: Lake) -> None:
    row = {"pipeline": "tiny", "time": NOW, "app": "a"}
    for table in (TABLE, "telemetry/streams"):
        lake.append(table, [row], {"tiny/1": 1})
        age_ids(lake, table, days=40)
        maintain(lake, table, NOW.date())
    assert Lake(lake.location).committed(TABLE, "tiny/1") == -1
    assert Lake(lake.location).committed("telemetry/streams", "tiny/1") == 1, "a position that is gone on from"


def test_maintain_keeps_an_id_that_is_to_last(lake: Lake) -> None:
    row = {"pipeline": "tiny", "time": NOW, "app": "a"}
    lake.append(TABLE, [row], {"tiny/attached": 3}, lasting=True)
    age_ids(lake, TABLE, days=40)
    maintain(lake, TABLE, NOW.date())
    assert Lake(lake.location).committed(TABLE, "tiny/attached") == 3


def age_ids(lake: Lake, table: str, days: int) -> None:
    for entry in lake.path(table).glob("_delta_log/*.json"):
        lines = entry.read_text().splitlines()
        entry.write_text("\n".join(aged(line, days) for line in lines))


def aged(line: str, days: int) -> str:
    action = json.loads(line)
    if action.get("txn", {}).get("lastUpdated"):
        action["txn"]["lastUpdated"] -= days * 86_400_000
    return json.dumps(action, separators=(",", ":"))

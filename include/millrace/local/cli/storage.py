"""The output of ``./millrace status --storage``: size and age of what is kept, and the last maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from millrace.environment.home import Home
from millrace.lake.schemas import TABLES
from millrace.lake.storage import TableStorage, folder_bytes, table_storage
from millrace.lake.store import Lake
from millrace.local.cli.status_part import Status
from millrace.model.codec import to_plain

NEVER = "not yet"


def storage_status(home: Home, lake: Lake, keep_days: Mapping[str, int | None], now: datetime | None = None) -> Status:
    """Return the size of the lake's tables and of the home's other folders.

    Args:
        home: The home.
        lake: Its lake.
        keep_days: Days that rows of each table are kept; None: permanently.
        now: The current time (UTC).

    Raises:
        MillraceError: If a table's log cannot be read.
    """
    now = now or datetime.now(UTC)
    tables = {name: table_storage(lake, name) for name in TABLES if lake.exists(name)}
    folders = {name: folder_bytes(folder) for name, folder in _folders(home).items() if folder.exists()}
    held = _table("Lake", "table", "rows", "on disk", "log entries", "oldest", "kept")
    done = _table("Last maintenance", "table", "ago", "rows expired", "files", "files deleted")
    for name, of in tables.items():
        held.add_row(name, *_held(of, keep_days[name]))
        done.add_row(name, *_done(of, now))
    rows, disk_bytes = (sum(getattr(of, what) for of in tables.values()) for what in ("rows", "disk_bytes"))
    held.add_row("total", f"{rows:,}", size(disk_bytes), style="bold")
    others = _table("Other folders", "folder", "on disk")
    for folder, count in folders.items():
        others.add_row(folder, size(count))
    data: dict[str, Any] = {
        "tables": {name: {**to_plain(of), "keep_days": keep_days[name]} for name, of in tables.items()},
        "folders_bytes": folders,
    }
    parts: list[RenderableType] = [held, "", done] if tables else ["The lake is empty."]
    return Status(data, Group(*parts, *(("", others) if folders else ())))


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None)
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def size(count: int) -> str:
    """Return a readable number of bytes, such as ``1.5 MB``."""
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if value >= 100 or unit == "B" else f"{value:.1f} {unit}"


def _folders(home: Home) -> dict[str, Path]:
    logs = {"drivers' logs": home.logs / "drivers", "logs of Airflow's tasks": home.logs / "airflow"}
    return {"Airflow": home.airflow, "MLflow": home.mlflow, **logs}


def _held(held: TableStorage, keep_days: int | None) -> list[str]:
    return [
        f"{held.rows:,}",
        size(held.disk_bytes),
        f"{held.log_entries:,}",
        "" if held.oldest is None else held.oldest.isoformat(),
        "permanently" if keep_days is None else f"{keep_days} days",
    ]


def _done(held: TableStorage, now: datetime) -> list[str]:
    if held.maintained is None or held.upkeep is None:
        return [NEVER]
    done, hours = held.upkeep, (now - held.maintained).total_seconds() / 3600
    ago = f"{hours * 60:.0f} min" if hours < 2 else f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} days"
    files = f"{done.files_before:,} -> {done.files_after:,}"
    return [ago, f"{done.expired:,}", files, f"{done.deleted:,}"]

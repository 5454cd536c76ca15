import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.lake.maintenance import MANY_FILES, compact, maintain
from millrace.lake.store import Lake
from millrace.model.errors import MillraceError

NOW = datetime(2026, 3, 3, 12, tzinfo=UTC)
TABLE = "telemetry/apps"


def append(lake: Lake, number: int, time: datetime = NOW, app: str = "a") -> None:
    row = {"pipeline": "tiny", "time": time, "app": app, "generation": number, "up_s": 1.0}
    assert lake.append(TABLE, [row], {f"tiny/{app}/main/0": number}) is not None


def rows(lake: Lake) -> list[tuple[str, int]]:
    found = lake.rows("select app, generation from apps order by app, generation", TABLE)
    return [(row["app"], row["generation"]) for row in found]


def test_maintain_merges_a_past_day_into_one_file_and_loses_no_row(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for number in range(12):
        append(lake, number, NOW - timedelta(days=number % 3))
    before = rows(lake)
    done = maintain(lake, TABLE, NOW.date())
    # two past days of four files each become one file each; the present day has few files and is left alone
    assert (done.files_before, done.files_after) == (12, 4 + 2)
    assert rows(lake) == before
    assert maintain(lake, TABLE, NOW.date()).files_after == 6


def test_maintain_compacts_a_present_day_of_many_files(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for number in range(MANY_FILES + 1):
        append(lake, number)
    assert maintain(lake, TABLE, NOW.date()).files_after == 1
    assert len(rows(lake)) == MANY_FILES + 1


def test_maintain_when_table_has_no_days_then_compacts_it_whole(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    row = {"pipeline": "tiny", "time": NOW, "version": 1, "content": "{}", "author": "person"}
    for number in range(MANY_FILES + 1):
        lake.append("control/deployments", [row], {"deployment/tiny": number})
    assert maintain(lake, "control/deployments", NOW.date()).files_after == 1


def test_maintain_when_done_then_replayed_transactions_are_still_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for number in range(MANY_FILES + 1):
        append(lake, number)
    maintain(lake, TABLE, NOW.date())
    again = {"pipeline": "tiny", "time": NOW, "app": "a", "generation": 3}
    assert Lake(tmp_path).append(TABLE, [again], {"tiny/a/main/0": 3}) is None


def test_maintain_removes_unreferenced_files_after_a_day(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    append(lake, 0)
    folder = next(lake.path(TABLE).glob("pipeline=*/date=*"))
    fresh, old = folder / "part-of-a-writer-at-work.parquet", folder / "part-of-a-killed-writer.parquet"
    for file in (fresh, old):
        file.write_bytes(b"PAR1")
    two_days_ago = (datetime.now(UTC) - timedelta(days=2)).timestamp()
    os.utime(old, (two_days_ago, two_days_ago))
    assert maintain(lake, TABLE, NOW.date()).deleted == 1
    assert fresh.exists()
    assert not old.exists()


def test_maintain_when_writers_and_readers_are_active_then_all_continue(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for number in range(MANY_FILES + 1):
        append(lake, number, app="before")
    started, errors = threading.Barrier(4), []

    def work(app: str) -> None:
        try:
            own = Lake(tmp_path)
            started.wait()
            for number in range(25):
                append(own, number, app=app)
                assert len(rows(own)) > MANY_FILES
        except Exception as error:
            errors.append(error)

    def keep() -> None:
        try:
            started.wait()
            for _ in range(5):
                maintain(Lake(tmp_path), TABLE, NOW.date() + timedelta(days=1))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(app,)) for app in ("x", "y", "z")]
    threads.append(threading.Thread(target=keep))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    expected = [("before", n) for n in range(MANY_FILES + 1)] + [(app, n) for app in "xyz" for n in range(25)]
    assert rows(Lake(tmp_path)) == sorted(expected)


def test_maintain_when_the_table_is_missing_or_broken_then_says_so(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with pytest.raises(MillraceError, match="telemetry/apps"):
        maintain(lake, TABLE, NOW.date())
    append(lake, 0)
    for log in lake.path(TABLE).glob("_delta_log/*.json"):
        log.write_text("{")
    with pytest.raises(MillraceError, match="Free space"):
        maintain(lake, TABLE, NOW.date())


def test_compact_when_hourly_then_rewrites_only_days_with_many_files(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for number in range(12):
        append(lake, number, NOW - timedelta(days=number % 3))
    before = rows(lake)
    assert compact(lake, TABLE, (NOW - timedelta(days=3)).date()) == 0  # everything is from the present or later
    assert compact(lake, TABLE, NOW.date()) == 6
    assert rows(lake) == before
    assert compact(lake, TABLE, NOW.date()) == 0

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.control.profile_signals import stream_counts
from millrace.lake.control_tables import ControlTables
from millrace.lake.memories import MemoryStore
from millrace.lake.store import Lake
from millrace.model.admission import StreamCounts
from millrace.model.spec import PipelineSpec
from tests.include.control.world import NAME, NOON, spec

HOUR = timedelta(hours=1)
NOW = NOON + 1000 * HOUR
PROFILE = {"source": "flights", "time_column": "time", "period_s": 3600, "stream": ["origin", "carrier"]}


def admitted(**changes: Any) -> PipelineSpec:
    return spec(profile=PROFILE, admission={"capacity": 1.0, **changes})


def profile(lake: Lake, hours: Mapping[int, Mapping[str | None, int | None]], pipeline: str = NAME) -> None:
    """Output of the profile: rows of streams by hour after noon."""
    rows = [
        {"pipeline": pipeline, "time": NOON + hour * HOUR, "stream": stream, "app": pipeline, "rows": n, "bytes": 1}
        for hour, of in hours.items()
        for stream, n in of.items()
    ]
    lake.append("telemetry/streams", rows)


def read(lake: Lake, **changes: Any) -> StreamCounts | None:
    return stream_counts(admitted(**changes), ControlTables(lake), None, NOW)


def table(found: StreamCounts | None) -> dict[tuple[int, str], int | None]:
    """Rows by hour after noon and stream."""
    assert found is not None
    first = round((found.since - NOON) / HOUR)
    columns = zip(found.period, found.index, found.rows, strict=True)
    return {(first + period, found.stream[index]): rows for period, index, rows in columns}


def remember(lake: Lake, hour: int) -> None:
    until = (NOON + hour * HOUR).isoformat()
    MemoryStore(lake).record(NAME, "drfm", f"decision-{hour}", NOW + hour * HOUR, {"until": until})


def test_streams_of_several_profiles_are_added_up(
    tmp_path: Path,
) -> None:
    lake = Lake(tmp_path)
    profile(lake, {0: {"JFK/B6": 5, "EWR/UA": 7}, 1: {"JFK/B6": 2}})
    profile(lake, {1: {"JFK/B6": 3, "LGA/DL": 1}, 4: {"JFK/B6": 9}})
    profile(lake, {0: {"JFK/B6": 100}}, pipeline="another")
    found = read(lake)
    assert table(found) == {(0, "JFK/B6"): 5, (0, "EWR/UA"): 7, (1, "JFK/B6"): 5, (1, "LGA/DL"): 1}
    assert found is not None and (found.since, found.until, found.periods) == (NOON, NOON + 2 * HOUR, 2)
    assert found.stream == ("EWR/UA", "JFK/B6", "LGA/DL") and found.period_s == 3600
    assert found.version == lake.version("telemetry/streams")


def test_streams_arrive_with_quiet_periods_once_followed(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    profile(lake, {0: {"a": 5}, 1: {"a": 2}})
    remember(lake, 1)
    profile(lake, {1: {"a": 2}, 4: {"a": 9}, 5: {"a": 1}})
    found = read(lake)
    assert table(found) == {(1, "a"): 4, (4, "a"): 9}
    assert found is not None and (found.since, found.until) == (NOON + HOUR, NOON + 5 * HOUR), "2 and 3 brought nothing"


def test_streams_wait_for_as_many_periods_as_the_spec_says(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    profile(lake, {hour: {"a": 1} for hour in range(5)})
    assert table(read(lake, unfinished=3)) == {(0, "a"): 1, (1, "a"): 1}
    assert read(lake, unfinished=5) is None


def test_streams_of_a_long_profile_are_the_newest_periods(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    profile(lake, {hour: {"a": 1} for hour in (0, 1, 2, 50, 51, 52)})
    assert set(table(read(lake, periods=3))) == {(50, "a"), (51, "a")}
    remember(lake, 2)
    assert set(table(read(lake, periods=3))) == {(50, "a"), (51, "a")}
    assert set(table(read(lake, periods=90))) == {(2, "a"), (50, "a"), (51, "a")}


def test_streams_leave_out_rows_from_the_future(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    profile(lake, {0: {"a": 1}, 1: {"a": 2}, 5000: {"a": 1}})
    assert table(read(lake)) == {(0, "a"): 1}


def test_streams_are_used_even_if_one_row_is_far_ahead(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    profile(lake, {0: {"a": 1}, 1: {"a": 2}, 900: {"a": 1}})
    assert table(read(lake)) == {(0, "a"): 1, (1, "a"): 2}


def test_streams_when_a_count_is_lost_then_it_is_not_reported_as_zero(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    profile(lake, {0: {"a": None, "b": 4, None: 3}, 1: {"a": 1}})
    profile(lake, {0: {"a": 7}})
    assert table(read(lake)) == {(0, "a"): None, (0, "b"): 4}


def test_streams_without_a_new_profile_are_none(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert read(lake) is None
    profile(lake, {0: {"a": 5}, 1: {"a": 5}})
    committed = lake.committed_at("telemetry/streams")
    assert committed is not None
    assert stream_counts(admitted(), ControlTables(lake), committed, NOW) is None
    assert stream_counts(admitted(), ControlTables(lake), committed - timedelta(milliseconds=1), NOW) is not None
    remember(lake, 1)
    assert read(lake) is None, "what was taken in does not come again"


def test_streams_when_an_evaluation_in_between_failed_then_lose_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    profile(lake, {hour: {"a": hour + 1} for hour in range(3)})
    remember(lake, 1)
    profile(lake, {3: {"a": 4}})
    profile(lake, {4: {"a": 5}})
    assert table(read(lake)) == {(1, "a"): 2, (2, "a"): 3, (3, "a"): 4}


@pytest.mark.parametrize("until", [7, "yesterday", None, "2013-13-01"])
def test_streams_when_the_memory_has_another_format_then_all_are_sent(tmp_path: Path, until: object) -> None:
    lake = Lake(tmp_path)
    profile(lake, {0: {"a": 5}, 1: {"a": 5}})
    MemoryStore(lake).record(NAME, "drfm", "d", NOW, {"until": until})
    assert table(read(lake)) == {(0, "a"): 5}


def test_streams_are_none_without_an_admission_optimizer(
    tmp_path: Path,
) -> None:
    lake = Lake(tmp_path)
    profile(lake, {0: {"a": 5}, 1: {"a": 5}}, pipeline="another")
    assert read(lake) is None
    profile(lake, {0: {"a": 5}, 1: {"a": 5}})
    assert stream_counts(spec(profile=PROFILE), ControlTables(lake), None, NOW) is None
    assert read(lake) is not None


def test_admission_when_no_stream_is_profiled_then_is_refused() -> None:
    with pytest.raises(ValueError, match=r"admission: needs ingest, or profile\.stream"):
        spec(profile=None, admission={"capacity": 1.0})

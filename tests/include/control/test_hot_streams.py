from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from millrace.control.hot_streams import hot_streams
from millrace.control.partition_loads import partition_loads
from millrace.lake.store import Lake
from tests.include.control.test_partition_loads import run, sampled
from tests.include.control.world import NAME, NOON, spec

PROFILE = {"stream": ["carrier"], "time_column": "time", "source": "/s", "period_s": 60}
SPEC = spec(placement={}, submit={"master": "embedded"}, period_s=10, profile=PROFILE)


def counted(lake: Lake, minutes_ago: int, rows: Mapping[str, int], pipeline: str = NAME) -> None:
    time = NOON - timedelta(minutes=minutes_ago)
    told = {"pipeline": pipeline, "time": time, "app": NAME, "bytes": None}
    lake.append("telemetry/streams", [{**told, "stream": stream, "rows": count} for stream, count in rows.items()])


def test_streams_with_far_more_rows_than_the_mean_are_hot(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert hot_streams(lake, SPEC, NOON) == ()
    counted(lake, 2, {"UA": 60, "AA": 10, "B6": 5, "DL": 5})
    counted(lake, 1, {"UA": 10, "AA": 5, "B6": 5})
    counted(lake, 60, {"B6": 5000})  # long ago
    counted(lake, 1, {"B6": 5000}, "another")
    assert hot_streams(lake, SPEC, NOON) == (("UA", 0.7),)
    assert hot_streams(lake, spec(), NOON) == ()


def test_hot_streams_are_searched_if_partitions_are_skewed(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    counted(lake, 1, {"UA": 70, "AA": 10, "B6": 10, "DL": 10})
    for batch, hot_s in enumerate((1.0, 1.0, 1.0)):
        sampled(lake, *(run(batch, p, run_s=hot_s) for p in range(4)))
    even = partition_loads(SPEC, lake, NOON + timedelta(seconds=9))
    assert even is not None and even.hot == ()
    sampled(lake, *(run(batch, p, run_s=1.0 if p else 30.0) for batch in range(3, 9) for p in range(4)))
    skewed = partition_loads(SPEC, lake, NOON + timedelta(seconds=9))
    assert skewed is not None and skewed.hot == (("UA", 0.7),)

"""A period's samples of keys, added up by name."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.control.key_samples import key_samples
from millrace.lake.row_codec import key_sample_row
from millrace.lake.store import Lake
from millrace.model.codec import from_json, to_json
from millrace.model.key_map import HOT_KEYS, HotKey, KeySample
from tests.include.control.world import NAME, NOON, spec

WANTED = spec(partitioning={})


def row(ago_s: float, hot: dict[int, int], rows: int = 100, **changes: Any) -> dict[str, Any]:
    keys = tuple(HotKey(key, f"key {key}", n) for key, n in hot.items())
    time = NOON - timedelta(seconds=ago_s)
    return key_sample_row(KeySample(NAME, NAME, 1, time, "areas", ("area",), 4, 2, rows, keys)) | changes


def read(lake: Lake, after_s: float | None = 60, wanted: Any = WANTED) -> tuple[KeySample, ...]:
    after = None if after_s is None else NOON - timedelta(seconds=after_s)
    return key_samples(wanted, lake, after, NOON - timedelta(seconds=30), NOON)


def test_samples_since_the_last_evaluation_are_added_up(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for ago_s, hot in ((61, {9: 90}), (60, {9: 90}), (59, {1: 40, -2: 30}), (0, {1: 5, 3: 60}), (-1, {9: 90})):
        lake.append("telemetry/keys", [row(ago_s, hot)])
    lake.append("telemetry/keys", [row(10, {7: 1}, 10, name="cars", workers=2, revision=None)])
    areas, cars = read(lake)
    hot = (HotKey(3, "key 3", 60), HotKey(1, "key 1", 45), HotKey(-2, "key -2", 30))
    assert areas == KeySample(NAME, NAME, 1, NOON, "areas", ("area",), 4, 2, 200, hot)
    assert (cars.name, cars.rows, cars.workers, cars.revision) == ("cars", 10, 2, None)
    assert from_json(KeySample, to_json(areas)) == areas
    assert [counts.rows for counts in read(lake, after_s=None)] == [100, 10]


def test_only_a_spec_that_wants_maps_reads_samples_and_only_of_its_app(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert read(lake) == ()  # no table yet
    lake.append("telemetry/keys", [row(5, {1: 5}), row(5, {1: 50}, app="other"), row(5, {1: 50}, pipeline="other")])
    assert [counts.rows for counts in read(lake)] == [100]
    assert read(lake, wanted=spec()) == ()


def test_samples_of_former_columns_do_not_count(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.append("telemetry/keys", [row(20, {1: 50}, columns=["city"]), row(10, {2: 70}), row(5, {2: 5}, workers=8)])
    (counts,) = read(lake)
    assert (counts.columns, counts.rows, counts.workers) == (("area",), 200, 8)
    assert [(of.key, of.rows) for of in counts.hot] == [(2, 75)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": None}, {"rows": -1}, {"rows": 2**60}, {"rows": 10}, {"workers": 0}, {"workers": None}, {"hot": None},
        {"hot": [{"key": None, "label": "x", "rows": 1}]}, {"hot": [{"key": 1, "label": "x", "rows": -5}]},
        {"name": None}, {"columns": None},
    ],
)  # fmt: skip
def test_sample_that_cannot_be_right_is_left_out(wrong: dict[str, Any], tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.append("telemetry/keys", [row(20, {1: 50}) | wrong, row(10, {2: 70})])
    (counts,) = read(lake)
    assert (counts.rows, [of.key for of in counts.hot]) == (100, [2])


def test_most_frequent_keys_are_kept(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for ago_s, first in ((10, 0), (5, 1000)):
        hot = {first + i: 10 + i for i in range(HOT_KEYS)}
        lake.append("telemetry/keys", [row(ago_s, hot, rows=sum(hot.values()))])
    (counts,) = read(lake)
    assert len(counts.hot) == HOT_KEYS and min(of.rows for of in counts.hot) == 10 + HOT_KEYS // 2

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from include.control.profile_signals import key_groups
from include.lake.store import Lake
from include.model.spec import PipelineSpec
from tests.include.control.world import NAME, NOON, spec

HOUR = timedelta(hours=1)
PLANE = {"name": "plane", "key": ["tailnum"], "key_groups": 4}
PROFILE = {"source": "flights", "time_column": "time", "period_s": 3600, "operators": [PLANE]}


def placed(periods: int = 2) -> PipelineSpec:
    return spec(profile=PROFILE, placement={"periods": periods})


def profile(lake: Lake, hour: int, rows: dict[tuple[str, int], int], pipeline: str = NAME) -> None:
    """What a profile run writes of one hour; flows from each group of plane to the same of route."""
    common = {"pipeline": pipeline, "time": NOON + hour * HOUR}
    loads: list[dict[str, Any]] = [
        common | {"operator": o, "key_group": g, "app": pipeline, "rows_in": n, "bytes_in": 10 * n}
        for (o, g), n in rows.items()
    ]
    flows = [
        common | {"from_operator": "plane", "from_group": g, "to_operator": "route", "to_group": g, "rows": n}
        for (o, g), n in rows.items()
        if o == "plane"
    ]
    lake.append("telemetry/flows", flows)
    lake.append("telemetry/key_groups", loads)


def test_key_groups_are_rates_over_the_newest_periods(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    profile(lake, 0, {("plane", 1): 9999, ("route", 1): 9999})  # too old
    profile(lake, 1, {("plane", 1): 720, ("route", 1): 3600})
    profile(lake, 5, {("plane", 1): 720, ("plane", 2): 7200, ("route", 2): 72})
    profile(lake, 5, {("plane", 1): 5760})  # the same hour, seen in a later run
    profile(lake, 5, {("plane", 3): 1}, pipeline="another")
    found = key_groups(placed(), lake, None)
    assert found is not None
    assert (found.since, found.until) == (NOON + HOUR, NOON + 6 * HOUR)
    assert found.operator == ("plane", "plane", "route", "route") and found.key_group == (1, 2, 1, 2)
    assert found.rows_per_s == pytest.approx((1.0, 1.0, 0.5, 0.01))
    assert found.bytes_per_s == pytest.approx((10.0, 10.0, 5.0, 0.1))
    assert found.cpu_ratio == found.state_bytes == (None,) * 4
    assert (found.producer, found.consumer) == ((0, 1), (2, 3))
    assert found.flow_rows_per_s == pytest.approx((1.0, 1.0))


def test_key_groups_when_nothing_was_profiled_since_then_are_none(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert key_groups(placed(), lake, None) is None
    profile(lake, 0, {("plane", 1): 5})
    committed = lake.committed_at("telemetry/key_groups")
    assert committed is not None
    assert key_groups(placed(), lake, committed) is None
    assert key_groups(placed(), lake, committed - timedelta(milliseconds=1)) is not None


def test_key_groups_when_nobody_wants_them_placed_then_are_not_read(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    profile(lake, 0, {("plane", 1): 5})
    assert key_groups(spec(profile=PROFILE), lake, None) is None


def test_key_groups_when_only_another_pipeline_was_profiled_then_are_none(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    profile(lake, 0, {("plane", 1): 5}, pipeline="another")
    assert key_groups(placed(), lake, None) is None


def test_placement_when_no_keyed_operator_is_profiled_then_is_refused() -> None:
    for profiled in (None, {**PROFILE, "operators": []}):
        with pytest.raises(ValueError, match=r"placement: needs profile\.operators"):
            spec(profile=profiled, placement={})

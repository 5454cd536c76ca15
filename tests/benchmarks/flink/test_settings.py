"""The settings that Flink's autoscaler gets."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.flink.settings import COMPARED, FlinkSettings
from millrace.model.errors import MillraceError


def test_name_when_compared_then_includes_target_and_boundary() -> None:
    assert [s.name for s in COMPARED] == ["flink_0.7_0.3", "flink_0.9_0.2", "flink_0.93_0.07", "flink_1_0"]


def test_options_when_made_then_are_flinks_own_names_and_units() -> None:
    options = FlinkSettings(downtime_s=2.5, even_load=False).options()
    assert options["job.autoscaler.target.utilization"] == "0.7"
    assert options["job.autoscaler.target.utilization.boundary"] == "0.3"
    assert options["job.autoscaler.restart.time"] == "2500 ms"
    assert options["job.autoscaler.catch-up.duration"] == "1800000 ms"
    assert options["job.autoscaler.metrics.busy-time.aggregator"] == "MAX"


@pytest.mark.parametrize(
    "wrong",
    [
        {"target_utilisation": 0.0},
        {"target_utilisation": 1.1},
        {"boundary": -0.1},
        {"window_looks": 0},
        {"downtime_s": -1.0},
        {"scale_down_factor": 0.0},
        {"catch_up_s": float("nan")},
    ],
)
def test_settings_when_out_of_range_then_say_so(wrong: dict[str, Any]) -> None:
    with pytest.raises(MillraceError, match=f"flink.{next(iter(wrong))}"):
        FlinkSettings(**wrong)

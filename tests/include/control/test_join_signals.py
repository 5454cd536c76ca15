from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.control.join_signals import join_signals
from millrace.lake.store import Lake
from millrace.model.codec import from_json, to_json
from millrace.model.join import JoinSignals
from tests.include.control.world import NAME, NOON, spec

PERIOD = timedelta(seconds=60)
JOIN: dict[str, Any] = {
    "streams": {n: {"source": n, "time": "t", "columns": ["k"]} for n in ("flights", "weather")},
    "tasks": {"pairs": {"left": "flights", "right": "weather", "on": ["k"], "within_s": [-60, 3600]}},
    "results": "r",
    "checkpoint": "c",
    "capacity": 100,
}
Edit = Callable[[dict[str, Any]], Any]


def worker(number: int, batch: int, ago_s: float, **changes: Any) -> dict[str, Any]:
    return {
        "pipeline": NAME, "app": NAME, "time": NOON - timedelta(seconds=ago_s), "generation": 2, "batch_id": batch,
        "worker": number, "window_tuples": 10 * number + batch, "capacity": 100, "offered": 20 * number + batch,
        "messages": 3, "bytes": 500, "shed": 1, "workers": 2, "block": 8, "shed_ratio": 0.25,
        "partitions": 9, **changes,
    }  # fmt: skip


def stream(name: str, rows: int | None, shed: int | None, ago_s: float, **changes: Any) -> dict[str, Any]:
    time = NOON - timedelta(seconds=ago_s)
    return {"pipeline": NAME, "app": NAME, "time": time, "stream": name, "rows": rows, "shed_rows": shed, **changes}


def batch(lake: Lake, number: int, ago_s: float, workers: int = 2, **changes: Any) -> None:
    lake.append("telemetry/workers", [worker(n, number, ago_s, **changes) for n in range(workers)])


def read(lake: Lake, **changes: Any) -> JoinSignals | None:
    return join_signals(spec(join={**JOIN, **changes}), lake, NOON - PERIOD, NOON)


def found(lake: Lake) -> JoinSignals:
    told = read(lake)
    assert told is not None
    return told


def test_signals_include_the_newest_window_and_the_messages(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for number, ago_s in enumerate((90, 60, 30, 0)):
        batch(lake, number, ago_s)
        rows = [stream("flights", 100 + number, 25, ago_s), stream("weather", 7, 0, ago_s)]
        lake.append("telemetry/streams", rows)
    batch(lake, 4, -5)
    assert read(lake) == JoinSignals(
        workers=2, block=8, shed=0.25, capacity=100, window_s=3600.0, window_tuples=(3, 13), offered=26, until=NOON,
        period_s=60.0, offered_before=22, arrived={"flights": 205, "weather": 14},
        dropped={"flights": 50, "weather": 0}, messages=12, bytes=2000, partitions=9,
    )  # fmt: skip
    assert from_json(JoinSignals, to_json(found(lake))) == found(lake)


@pytest.mark.parametrize("partitions", [(3, 4), (None, 4), (1, 1)])
def test_impossible_number_of_state_partitions_is_unknown(tmp_path: Path, partitions: tuple[int | None, int]) -> None:
    rows = [worker(number, 1, 20, partitions=count) for number, count in enumerate(partitions)]
    Lake(tmp_path).append("telemetry/workers", rows)
    assert found(Lake(tmp_path)).partitions is None


def test_signals_use_the_workers_of_the_newest_batch(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    batch(lake, 1, 40, workers=5, window_tuples=9)
    batch(lake, 2, 20, workers=3, window_tuples=4)
    assert found(lake).window_tuples == (4, 4, 4) and found(lake).workers == 2


def test_signals_use_the_newest_drivers_batches(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    batch(lake, 900, 10)
    batch(lake, 3, 15, generation=3, shed_ratio=0.5)
    assert found(lake).shed == 0.5 and found(lake).window_tuples == (3, 13)


def test_signals_keep_the_window_of_silent_streams_for_a_day(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    batch(lake, 7, 3600)
    silent = found(lake)
    assert (silent.offered, silent.offered_before) == (34, 34)
    assert (silent.arrived, silent.messages) == ({}, 0), "nothing was reported, which is not the same as no tuple"
    later = Lake(tmp_path / "later")
    batch(later, 7, 24 * 3600)
    assert read(later) is None


def test_signals_without_a_join_or_a_batch_are_none(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert read(lake) is None
    batch(lake, 1, 10, pipeline="another")
    batch(lake, 1, 10, app="another")
    assert read(lake) is None
    batch(lake, 1, 10)
    assert join_signals(spec(), lake, NOON - PERIOD, NOON) is None
    assert found(lake).offered_before is None


@pytest.mark.parametrize("value", [None, -1, 2**60])
@pytest.mark.parametrize(
    ("column", "untold"),
    [("window_tuples", {"window_tuples": (None, 11)}), ("offered", {"offered": None})],
)
def test_signals_leave_a_lost_count_unknown(
    tmp_path: Path, column: str, untold: dict[str, Any], value: int | None
) -> None:
    lake, whole = Lake(tmp_path / "bad"), Lake(tmp_path / "good")
    lake.append("telemetry/workers", [worker(0, 1, 10, **{column: value}), worker(1, 1, 10)])
    batch(whole, 1, 10)
    assert found(lake) == replace(found(whole), **untold)


@pytest.mark.parametrize(
    "edit",
    [
        {"workers": 0}, {"workers": None}, {"workers": 3}, {"block": 0}, {"block": None}, {"shed_ratio": -0.1},
        {"shed_ratio": 1.1}, {"shed_ratio": float("nan")}, {"shed_ratio": None}, {"capacity": 1}, {"capacity": None},
        {"worker": 1}, {"worker": None}, {"messages": None}, {"messages": -1}, {"bytes": 2**60},
    ],
    ids=str,
)  # fmt: skip
def test_signals_when_a_row_is_malformed_then_are_none(tmp_path: Path, edit: dict[str, Any]) -> None:
    lake = Lake(tmp_path)
    other = {} if "worker" in edit else edit
    lake.append("telemetry/workers", [worker(0, 1, 10, **edit), worker(1, 1, 10, **other)])
    assert read(lake) is None


def test_signals_when_a_worker_is_reported_twice_then_are_none(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.append("telemetry/workers", [worker(0, 1, 10), worker(1, 1, 10), worker(1, 1, 10)])
    assert read(lake) is None


def test_signals_are_none_if_workers_disagree(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.append("telemetry/workers", [worker(0, 1, 10, block=9), worker(1, 1, 10)])
    assert read(lake) is None


def test_signals_are_none_if_a_worker_is_missing(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    batch(lake, 1, 10)
    assert read(lake) is not None
    lake.append("telemetry/workers", [worker(0, 2, 5)])
    assert read(lake) is None


@pytest.mark.parametrize(
    ("rows", "shed", "arrived", "dropped"),
    [
        (None, 0, {"weather": 5}, {"weather": 1}),
        (-1, 0, {"weather": 5}, {"weather": 1}),
        (2**60, 0, {"weather": 5}, {"weather": 1}),
        (3, 50, {"weather": 5}, {"weather": 1}),
        (3, None, {"flights": 13, "weather": 5}, {"weather": 1}),
        (3, -2, {"flights": 13, "weather": 5}, {"weather": 1}),
    ],
)
def test_signals_leave_out_a_stream_without_count(
    tmp_path: Path, rows: int | None, shed: int | None, arrived: dict[str, int], dropped: dict[str, int]
) -> None:
    lake = Lake(tmp_path)
    batch(lake, 1, 10)
    told = [stream("flights", 10, 0, 20), stream("flights", rows, shed, 10), stream("weather", 5, 1, 10)]
    lake.append("telemetry/streams", [*told, stream("nobody", 5, 0, 10), stream("weather", 9, 0, 10, app="another")])
    assert (found(lake).arrived, found(lake).dropped) == (arrived, dropped)


counts = st.one_of(st.none(), st.integers(-(2**62), 2**62), st.integers(0, 50))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "worker": st.integers(0, 2) | st.none(), "batch_id": st.integers(0, 2), "window_tuples": counts,
                "offered": counts, "messages": counts, "bytes": counts, "block": counts,
                "workers": st.integers(-1, 4) | st.none(), "shed_ratio": st.floats() | st.none(), "capacity": counts,
            }
        ),
        max_size=6,
    )
)  # fmt: skip
def test_signals_of_any_telemetry_are_possible_or_none(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    if rows:
        lake.append("telemetry/workers", [worker(0, 0, 10, **row) for row in rows])
    told = read(lake)
    if told is None:
        return
    assert told.workers >= 1 and told.block >= 1 and 0 <= told.shed <= 1 and told.capacity >= 2
    assert len(told.window_tuples) >= told.workers
    assert all(count is None or count >= 0 for count in (*told.window_tuples, told.offered, told.messages, told.bytes))

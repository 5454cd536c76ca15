"""The example of a join: its spec, and the results that it should find in the replay."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pandas as pd
import pyarrow as pa
import pytest

from millrace.local.feeds.nycflights import weather
from millrace.local.feeds.replay_clock import FLIGHTS, WEATHER, Clock, Replay, RowKind
from millrace.model.join import JoinDefinition, JoinTask
from millrace.model.spec import PipelineSpec
from millrace.optimizers.registry import all_of, problems
from millrace.pipelines.catalog import load
from millrace.pipelines.schema import FILE
from millrace.pipelines.spec_yaml import read_file
from millrace.places import PACKAGE
from tests.flights import flights

EXAMPLE = PACKAGE / "pipelines" / "examples" / "flight_weather.yaml"
CLOCK = Clock(days=1)


@pytest.fixture
def spec() -> PipelineSpec:
    return load(EXAMPLE, {"MILLRACE_HOME": "/somewhere"})


def definition(spec: PipelineSpec) -> JoinDefinition:
    assert spec.join is not None
    return spec.join.definition


def replayed(rows: pd.DataFrame, kind: RowKind) -> pd.DataFrame:
    replay = Replay(CLOCK, rows, kind)
    return pa.concat_tables([replay.tick(n) for n in range(CLOCK.ticks)]).to_pandas()


def pairs(task: JoinTask, left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    on = [name for name, _ in task.on]
    met = left.merge(right, on=on, suffixes=("", "_right"))
    apart_s = (met["event_time_right"] - met["event_time"]).dt.total_seconds()
    return met[apart_s.between(task.after_s, task.before_s)]


def test_example_loads_and_esj_owns_the_join_and_the_slots(spec: PipelineSpec) -> None:
    assert (spec.mode, Path(spec.script).name) == ("auto", "stream_join.py")
    owners = spec.field_owners
    assert {owners[name] for name in ("slots", "join_workers", "block_size", "shed_ratio")} == {"esj"}
    assert problems([spec]) == [] and set(all_of(spec)) == {"flow", "esj", "batch_limits"}
    jsonschema.validate(read_file(EXAMPLE), json.loads(FILE.read_text("utf-8")))
    told = definition(spec)
    assert told.window_s("flights") == 21_600 and told.window_s("weather") == 3_599
    assert all(stream.source.startswith("/somewhere/data/joined/") for stream in told.streams)


def test_example_joins_nearly_every_flight_with_one_weather(
    spec: PipelineSpec,
) -> None:
    came, hours = replayed(flights(), FLIGHTS), replayed(weather(), WEATHER)
    of_weather, next_leg = definition(spec).tasks
    met = pairs(of_weather, came, hours)
    assert not met["row_id"].duplicated().any()
    assert len(met) > 0.99 * len(came)
    known = came[came["tailnum"] != "NA"]
    late = known[pd.to_numeric(known["dep_delay"], errors="coerce") >= 15]
    legs = pairs(next_leg, late, known)
    assert len(legs) > 100 and (legs["row_id"] != legs["row_id_right"]).all()


def test_example_needs_one_worker_at_night_and_several_by_day(
    spec: PipelineSpec,
) -> None:
    assert spec.join is not None
    told, workers = definition(spec), spec.join.workers
    came = {"flights": replayed(flights(), FLIGHTS), "weather": replayed(weather(), WEATHER)}
    at = pd.date_range("2013-01-01 01:00", "2013-01-02", freq="h", tz="UTC")
    window = pd.Series(0, index=at)
    for name, rows in came.items():
        span = pd.Timedelta(seconds=told.window_s(name))
        window += [rows["event_time"].between(time - span, time).sum() for time in at]
    assert window.min() < 0.2 * told.capacity, "by night a part of a worker"
    assert 3 * told.capacity < window.max() < workers.max * told.capacity, "by day several, and all of them suffice"

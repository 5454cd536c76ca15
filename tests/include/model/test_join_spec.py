from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from millrace.model import spec as specs
from millrace.model.codec import from_json
from millrace.model.deployment import JOIN_FIELDS
from millrace.model.errors import MillraceError
from millrace.model.join import JoinDefinition, JoinSettings, JoinStream, JoinTask
from millrace.model.join_spec import Join
from millrace.model.spec import PipelineSpec
from millrace.pipelines.catalog import load
from millrace.pipelines.schema import schema

GOOD: dict[str, Any] = {
    "streams": {
        "flights": {
            "source": "${MILLRACE_HOME}/flights",
            "time": "event_time",
            "columns": {"origin": "origin", "delay": "try_cast(dep_delay as double)"},
            "late_s": 5,
        },
        "weather": {"source": "weather", "time": "event_time", "columns": ["origin", "temp"]},
    },
    "tasks": {
        "weather": {"left": "flights", "right": "weather", "on": ["origin"], "within_s": [-3600, 60]},
        "next_leg": {"left": "flights", "right": "flights", "within_s": 7200, "left_where": "delay > 15"},
    },
    "results": "${MILLRACE_HOME}/results",
    "checkpoint": "checkpoint",
    "capacity": 1000,
    "workers": {"min": 1, "max": 6, "start": 2},
    "block": 20,
    "expected_rows_per_s": 3.5,
    "options": {"tau2": 0.8},
}


def told(**changes: Any) -> dict[str, Any]:
    """The good section with values replaced; dots address its parts."""
    section = copy.deepcopy(GOOD)
    for path, value in changes.items():
        *parts, last = path.split(".")
        at = section
        for part in parts:
            at = at[part]
        at[last] = value
    return section


def spec(section: dict[str, Any] | None = None, **changes: Any) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "air", "join": section or GOOD, **changes})


def refused(**changes: Any) -> str:
    with pytest.raises(ValidationError) as error:
        spec(told(**changes))
    return str(error.value)


def test_definition_in_short_form_is_completed() -> None:
    made = Join.model_validate(GOOD).definition
    assert made == JoinDefinition(
        (
            JoinStream(
                "flights", "${MILLRACE_HOME}/flights", "event_time",
                {"origin": "origin", "delay": "try_cast(dep_delay as double)"}, 5.0,
            ),
            JoinStream("weather", "weather", "event_time", {"origin": "origin", "temp": "temp"}),
        ),
        (
            JoinTask("weather", "flights", "weather", (("origin", "origin"),), -3600.0, 60.0),
            JoinTask("next_leg", "flights", "flights", (), -7200.0, 7200.0, "delay > 15"),
        ),
        "${MILLRACE_HOME}/results", "checkpoint", 1000,
    )  # fmt: skip


@pytest.mark.parametrize("written", ["/a/out", "file:/a/out", "file:///a/out"])
def test_folder_of_results_may_be_written_as_a_uri(written: str) -> None:
    made = Join.model_validate(told(results=written, checkpoint=written))
    assert made.results == made.checkpoint == "/a/out"


@pytest.mark.parametrize("on", [["origin", ["delay", "temp"]], {"origin": "origin", "delay": "temp"}])
def test_columns_as_names_or_pairs_become_pairs(on: Any) -> None:
    section = told(**{"tasks.weather.on": on})
    assert Join.model_validate(section).tasks["weather"].on == (("origin", "origin"), ("delay", "temp"))


@given(st.dictionaries(st.sampled_from(["origin", "delay"]), st.sampled_from(["origin", "temp"])), st.booleans())
def test_columns_as_mapping_or_pairs_mean_the_same(on: dict[str, str], pairs: bool) -> None:
    section = told(**{"tasks.weather.on": [list(pair) for pair in on.items()] if pairs else on})
    assert Join.model_validate(section).tasks["weather"].on == tuple(on.items())


def test_first_deployment_contains_settings_and_the_definition() -> None:
    first = spec(args=["--one"]).first_deployment()
    assert first.join == JoinSettings(2, 20, 0.0)
    one, given_join = first.apps["air"].args
    assert one == "--one" and given_join.startswith("--join=")
    assert from_json(JoinDefinition, given_join.removeprefix("--join=")) == Join.model_validate(GOOD).definition


def test_forwarding_of_a_join_reaches_its_job() -> None:
    assert Join.model_validate(GOOD).definition.forwarding == "broadcast"
    pair = {"left": "flights", "right": "weather", "within_s": 60}
    assert Join.model_validate(told(tasks={"near": pair}, forwarding="mp2pf")).definition.forwarding == "mp2pf"


def test_spec_with_a_join_implies_script_and_owners() -> None:
    made = spec()
    assert made.script == str(specs.STREAM_JOIN)
    assert {made.field_owners[name] for name in JOIN_FIELDS} == {"esj"}
    assert made.field_owners["slots"] == "flow"
    assert spec(owners={"slots": "esj"}).field_owners["slots"] == "esj"
    assert spec(script="mine.py").script == "mine.py"
    plain = PipelineSpec.model_validate({"name": "air", "script": "a.py"})
    assert not set(JOIN_FIELDS) & set(plain.field_owners)
    assert plain.join_options is None
    assert plain.first_deployment().join is None


def test_options_of_a_join_are_passed_to_its_optimizer() -> None:
    assert spec().join_options == {
        "capacity": 1000,
        "window_s": 7200.0,
        "workers": {"min": 1, "max": 6},
        "expected_rows_per_s": 3.5,
        "options": {"tau2": 0.8},
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tasks": {}}, "tasks"),
        ({"streams": {}}, "streams"),
        ({"tasks.weather.right": "wether"}, "tasks.weather.right: no stream wether; streams: flights, weather"),
        ({"tasks.weather.on": ["delay"]}, "tasks.weather.on: weather has no column delay; columns: origin, temp"),
        ({"tasks.weather.on": [["temp", "origin"]]}, "tasks.weather.on: flights has no column temp"),
        ({"tasks.weather.on": [["origin", "origin", "temp"]]}, "on"),
        ({"tasks.weather.on": "origin"}, "on"),
        ({"tasks.weather.within_s": [60, -60]}, "the least distance comes first, got [60, -60]"),
        ({"tasks.weather.within_s": -5}, "the least distance comes first, got [5, -5]"),
        ({"tasks.weather.within_s": [1, 2, 3]}, "within_s"),
        ({"tasks.weather.within_s": float("inf")}, "within_s"),
        ({"tasks.Next": GOOD["tasks"]["next_leg"]}, "tasks.Next"),
        ({"streams.a b": GOOD["streams"]["flights"]}, "streams.a b"),
        ({"streams.lost": GOOD["streams"]["flights"]}, "no task joins lost"),
        ({"streams.flights.columns": {}}, "columns"),
        ({"streams.flights.columns": [["origin"]]}, "columns"),
        ({"streams.flights.columns": {"a b": "x"}}, "columns"),
        ({"streams.flights.columns": {"origin": ""}}, "columns"),
        ({"streams.flights.columns": ["origin", "Time"]}, "none of time, _time, _hash, got Time"),
        ({"streams.flights.columns": {"origin": "a", "ORIGIN": "b"}}, "differ in more than case"),
        ({"streams.flights.late_s": -1}, "late_s"),
        ({"streams.flights.sauce": "x"}, "sauce"),
        ({"results": "s3a://bucket/out"}, "no URI of an object store"),
        ({"checkpoint": "hdfs:/out"}, "a folder that the driver and all executors can write to"),
        ({"checkpoint": "file://host/out"}, "a folder that the driver"),
        ({"capacity": 1, "block": 1}, "capacity"),
        ({"block": 0}, "block"),
        ({"block": 501}, "at most half of capacity, 500, got 501"),
        ({"workers": {"min": 3, "max": 2, "start": 3}}, "min <= start <= max"),
        ({"workers": {"max": 9}}, "join.workers.max: at most max_parallelism, 8"),
        ({"expected_rows_per_s": 0}, "expected_rows_per_s"),
        ({"forwarding": "mp2pf"}, "task next_leg joins flights with flights"),
        ({"forwarding": "none"}, "forwarding"),
    ],
    ids=str,
)  # fmt: skip
def test_join_when_something_is_wrong_then_says_where(changes: dict[str, Any], words: str) -> None:
    assert words in refused(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"admission": {"capacity": 1.0, "ingest": ["a"]}}, "leave admission and profile out"),
        ({"profile": {"source": "x", "time_column": "t", "stream": ["a"]}}, "leave admission and profile out"),
        ({"max_parallelism": 5}, "at most max_parallelism, 5"),
    ],
    ids=str,
)
def test_spec_with_settings_that_conflict_with_a_join_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        spec(**changes)


@given(
    st.integers(1, 20), st.integers(1, 2000), st.floats(0, 1), st.integers(1, 4), st.integers(0, 4), st.integers(2, 99)
)
def test_settings_when_bounds_have_moved_then_are_kept_within_them(
    workers: int, block: int, shed: float, least: int, more: int, capacity: int
) -> None:
    bounds = {"min": least, "max": least + more, "start": least}
    join = Join.model_validate(told(workers=bounds, capacity=capacity, block=1))
    kept = join.kept(JoinSettings(workers, block, shed))
    assert least <= kept.workers <= least + more and 1 <= kept.block <= capacity / 2 and kept.shed == shed
    if least <= workers <= least + more and block <= capacity / 2:
        assert kept == JoinSettings(workers, block, shed)


def test_load_replaces_home_in_the_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = tmp_path / "job.py"
    job.write_text("")
    monkeypatch.setattr(specs, "STREAM_JOIN", job)
    path = tmp_path / "air.yaml"
    text = json.dumps({"name": "air", "join": GOOD}).replace('"on":', "on:")
    assert "on:" in text
    path.write_text(text, encoding="utf-8")
    made = load(path, {"MILLRACE_HOME": "/somewhere"})
    assert made.join is not None and made.join.definition.results == "/somewhere/results"
    assert made.join.definition.streams[0].source == "/somewhere/flights"
    assert made.script == str(job)
    assert PipelineSpec.model_validate_json(made.model_dump_json()) == made
    path.write_text("name: air", encoding="utf-8")
    with pytest.raises(MillraceError, match="script"):
        load(path)


@pytest.mark.parametrize(
    "wrong",
    [{"capacity": 1}, {"tasks.weather.within_s": "soon"}, {"tasks.weather.on": [["a", "b", "c"]]}, {"sauce": 1}],
    ids=str,
)
def test_schema_lets_an_editor_mark_a_wrong_join(wrong: dict[str, Any]) -> None:
    jsonschema.validate({"name": "air", "join": GOOD}, schema())
    jsonschema.validate({"name": "air", "join": told(**{"tasks.weather.on": {"origin": "origin"}})}, schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(json.dumps({"name": "air", "join": told(**wrong)})), schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "air"}, schema())

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from millrace.model.errors import MillraceError
from millrace.model.spec import PipelineSpec

APPS = {
    "clean": {"script": "clean.py", "slots": {"max": 4}},
    "enrich": {"script": "enrich.py", "executor": {"cores": 2}, "slots": {"min": 2, "start": 2}, "max_parallelism": 16},
}


def spec(**changes: Any) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "flights", "apps": APPS, **changes})


def problem(**changes: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        spec(**changes)
    return str(caught.value.errors()[0]["msg"]).removeprefix("Value error, ")


def test_apps_take_what_they_leave_out_from_the_top_level() -> None:
    conf = {"conf": {"spark.a": "1", "spark.b": "1"}, "packages": ["x:y:1"]}
    own = {"enrich": {**APPS["enrich"], "submit": {"conf": {"spark.b": "2"}}}}
    found = spec(apps={**APPS, **own}, submit=conf, memory_mb=2048).app_specs
    assert list(found) == ["clean", "enrich"]
    assert [s.app for s in found.values()] == ["clean", "enrich"]
    assert [s.memory_mb for s in found.values()] == [2048, 2048]
    assert found["enrich"].submit.conf == {"spark.a": "1", "spark.b": "2"}
    assert found["enrich"].submit.packages == ("x:y:1",)
    assert str(found["clean"].bounds_contract()) == "1 to 4"
    assert str(found["enrich"].bounds_contract()) == "multiples of 2 from 2 to 8"


def test_app_may_have_a_minimum_of_memory_of_its_own() -> None:
    shared, small = {"memory_mb": 4096, "min_memory_mb": 2048}, {"script": "clean.py", "executor": {"memory_mb": 1024}}
    assert problem(apps={"clean": small}, executor=shared).startswith("apps.clean.executor: min_memory_mb, 2048, is")
    small["executor"] = {"memory_mb": 1024, "min_memory_mb": 512}
    options = spec(apps={"clean": small, "big": {"script": "big.py"}}, executor=shared).memory_options
    assert options is not None and options["min_memory_mb"] == {"clean": 512, "big": 2048}


def test_first_version_has_all_apps() -> None:
    first = spec().first_deployment()
    assert {name: (app.script, app.slots, app.max_parallelism) for name, app in first.apps.items()} == {
        "clean": ("clean.py", 1, 8),
        "enrich": ("enrich.py", 2, 16),
    }


def test_short_form_has_one_app_with_the_name_of_the_pipeline() -> None:
    plain = PipelineSpec(name="flights", script="flights.py")
    assert plain.app_specs == {"flights": plain} and list(plain.first_deployment().apps) == ["flights"]
    assert plain.app_named(None) is plain


def test_one_script_can_serve_several_apps() -> None:
    found = spec(script="copy.py", apps={"a": {"args": ["1"]}, "b": {"args": ["2"]}}).app_specs
    assert [(s.script, s.args) for s in found.values()] == [("copy.py", ("1",)), ("copy.py", ("2",))]


@pytest.mark.parametrize("app", [None, "copy"])
def test_app_must_be_named_if_there_are_several(app: str | None) -> None:
    with pytest.raises(MillraceError, match="allowed: clean, enrich"):
        spec().app_named(app)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"apps": {"clean": {}}}, "apps.clean.script: needs a script, here or at the top level"),
        ({"apps": {"clean": {"script": "x", "slots": {"min": 9}}}}, "apps.clean.slots: min <= start <= max must hold"),
        (
            {"apps": {"clean": {"script": "x", "executor": {"cores": 3}}}},
            "apps.clean.slots: min, max and start must be",
        ),
        ({"apps": {"clean": {"script": "x", "submit": {"foo": 1}}}}, "apps.clean.submit.foo: Extra inputs"),
        ({"apps": {"clean": {"script": "x", "reads": ["copy"]}}}, "apps.clean.reads: copy is no other app"),
        ({"apps": {"clean": {"script": "x", "reads": ["clean"]}}}, "apps.clean.reads: clean is no other app"),
        ({"budget": {"slots": 2}}, "budget.slots: at least 3, the sum of the apps' slots.min"),
        ({"budget": {"slots": 6}, "slots": {"start": 5}}, "budget.slots: at least 7, the sum of the apps' slots.start"),
        ({"placement": {}}, "placement: works on one app"),
        ({"apps": {}, "script": "x", "budget": {"slots": 9}}, "budget: several apps share it"),
    ],
)
def test_sections_that_cannot_work_are_refused_by_their_key(changes: dict[str, Any], reason: str) -> None:
    if "start" in changes.get("slots", {}):
        changes = {**changes, "apps": {"clean": {"script": "x"}, "enrich": APPS["enrich"]}}
    assert problem(**changes).startswith(reason)


def test_apps_that_read_each_other_in_a_circle_are_refused() -> None:
    apps = {"a": {"script": "a", "reads": ["c"]}, "b": {"script": "b", "reads": ["a"]}, "c": {"script": "c"}}
    assert spec(apps=apps).apps["b"].reads == ("a",)
    apps["c"]["reads"] = ["b"]
    told = problem(apps=apps)
    assert "reads" in told and told.endswith("leave one of them out")
    assert all(f"{name} reads" in told for name in "abc")

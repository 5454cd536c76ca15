from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millrace.model.fleet_spec import FLEET_NODE
from millrace.model.spec import PipelineSpec

FLEET: dict[str, Any] = {"script": "/x/ingest.py", "checkpoints": "/c", "streams": {"folders": "/landing/*"}}


def spec(fleet: dict[str, Any] | None = None, **more: Any) -> PipelineSpec:
    plain = {"name": "ingest", "fleet": {**FLEET, "node": {"capacity": 100}, **(fleet or {})}}
    return PipelineSpec.model_validate({**plain, **more})


def test_each_node_is_an_app_that_runs_the_users_function() -> None:
    fleet = spec({"nodes": 3, "options": {"to": "/bronze"}, "node": {"slots": 3, "memory_mb": 1024}})
    assert list(fleet.app_specs) == ["node0", "node1", "node2"]
    app = fleet.first_deployment().apps["node1"]
    assert (app.script, app.slots, app.memory_mb, app.standby) == (str(FLEET_NODE), 3, 1024, False)
    assert app.submit["conf"] == {"spark.scheduler.mode": "FAIR"}
    assert app.args == ("--script", "/x/ingest.py", "--checkpoints", "/c", "--options", '{"to":"/bronze"}')


def test_nodes_above_the_minimum_run_only_while_streams_enter_at_them() -> None:
    first = spec({"nodes": {"min": 1, "max": 3, "start": 2}}).first_deployment()
    assert {name for name in first.apps if first.wanted(name)} == {"node0"}
    entered = replace(first, ingest={"a": 0, "b": 2})
    assert {name for name in first.apps if entered.wanted(name)} == {"node0", "node2"}
    assert (first.slots, entered.slots, replace(entered, running=False).slots) == (2, 4, 0)
    assert not entered.restarts(first), "a node that comes or goes restarts no other one"


def test_other_apps_may_read_what_a_fleet_writes() -> None:
    fleet = spec({"nodes": 2}, apps={"totals": {"script": "totals.py"}, "node1": {"memory_mb": 4096}}, memory_mb=1024)
    apps = fleet.first_deployment().apps
    assert {name: (app.memory_mb, bool(app.args)) for name, app in apps.items()} == {
        "node0": (2048, True),
        "node1": (4096, True),
        "totals": (1024, False),
    }


def test_drfm_sizes_an_app_that_a_fleet_feeds_only_if_it_owns_the_slots() -> None:
    sizing = {"admission": {"sizing": {"query_s": 0.01, "query_app": "totals"}}}
    apps, owned = {"apps": {"totals": {"script": "totals.py"}}}, {"owners": {"slots": "drfm"}}
    options = spec(**sizing, **apps, **owned).admission_options
    assert options is not None and options["sizing"]["query_app"] == "totals"
    with pytest.raises(ValueError, match=r"query_app: needs owners: {slots: drfm}"):
        spec(**sizing, **apps)
    with pytest.raises(ValueError, match=r"query_app: totals is no app of the pipeline; allowed: node0"):
        spec(**sizing, **owned)


def test_streams_are_admitted_to_its_nodes_by_drfm() -> None:
    fleet = spec({"nodes": 2})
    assert fleet.admission_options is not None and fleet.admission_options["ingest"] == ("node0", "node1")
    assert fleet.admission_options["capacity"] == 100
    assert fleet.field_owners["ingest"] == "drfm"
    assert fleet.app_specs["node0"].admission is None


def test_spec_survives_a_round_trip() -> None:
    fleet = spec({"nodes": 3})
    assert PipelineSpec.model_validate_json(fleet.model_dump_json()) == fleet


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"apps": {"own": {"memory_mb": 1024}}}, "apps.own.script: needs a script"),
        ({"admission": {"capacity": 200}}, "fleet.node.capacity: given in admission.capacity too"),
        ({"fleet": {**FLEET, "nodes": 0}}, "greater than or equal to 1"),
        ({"fleet": {**FLEET, "nodes": {"min": 3, "max": 2}}}, "min <= start <= max"),
        ({"fleet": {**FLEET, "streams": {}}}, "give exactly one of folders, topics, list, file"),
        ({"fleet": {**FLEET, "streams": {"folders": "/a/*", "list": ["b"]}}}, "give exactly one of"),
        ({"fleet": {"checkpoints": None}}, "fleet.checkpoints"),
        ({"fleet": {**FLEET, "streams": {"topics": "cdc.*"}}}, "topics and brokers need each other"),
        ({"placement": {}}, "placement: works on one app"),
        ({"admission": True}, "admission: a mapping of keys to values"),
        ({"apps": ["totals"]}, "apps: a mapping of keys to values"),
    ],
)
def test_wrong_fleets_are_refused_with_their_key(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        spec(**changes)

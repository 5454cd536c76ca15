"""The method that sizes the app, and the settings that it is deployed with."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.elastic.methods import LIVE, RIVALS, Method, first_deployment, fixed, spec_for
from millrace.drivers.submit import conf
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.submit_options import EmbeddedCluster, SubmitOptions

OPTIONS = SubmitOptions(
    Path("spark-submit"),
    conf={"spark.driver.extraClassPath": "delta.jar"},
    cluster=EmbeddedCluster("spark://127.0.0.1:7077"),
)
METHODS = {method.name: method for method in (LIVE, *RIVALS, fixed("fixed_peak", 6))}


def _first(method: Method, tmp_path: Path) -> Deployment:
    return first_deployment(spec_for(str(tmp_path), method, 60.0, 4.0), method, OPTIONS)


def _app(name: str, tmp_path: Path) -> AppDeployment:
    return _first(METHODS[name], tmp_path).apps["delays"]


@pytest.mark.parametrize(
    ("name", "restarts"),
    [("live", False), ("batch_ratio", False), ("restart_cluster", True), ("restart_local", True)],
)
def test_only_rivals_by_restart_restart(name: str, restarts: bool, tmp_path: Path) -> None:
    first = _first(METHODS[name], tmp_path)
    more = replace(first, apps={"delays": replace(first.apps["delays"], slots=8)})
    assert first.restarts(more) is restarts


def test_cores_of_a_restarted_app_follow_its_slots(tmp_path: Path) -> None:
    app = _app("restart_cluster", tmp_path)
    assert [conf(OPTIONS, replace(app, slots=n))["spark.cores.max"] for n in (2, 8)] == ["2", "8"]


def test_dynamic_allocation_has_the_same_bounds_and_executors(tmp_path: Path) -> None:
    ours, settings = conf(OPTIONS, _app("live", tmp_path)), conf(OPTIONS, _app("spark_dra_tuned", tmp_path))
    bounds = [settings[f"spark.dynamicAllocation.{name}Executors"] for name in ("min", "initial", "max")]
    assert bounds == ["1", "1", "4"]
    for key in ("spark.executor.cores", "spark.executor.memory", "spark.executor.extraClassPath"):
        assert settings[key] == ours[key]


@pytest.mark.parametrize("name", ["live", "spark_dra_tuned", "restart_cluster", "fixed_peak"])
def test_executors_of_every_method_find_millrace(name: str, tmp_path: Path) -> None:
    folders = conf(OPTIONS, _app(name, tmp_path))["spark.executorEnv.PYTHONPATH"].split(os.pathsep)
    assert any((Path(folder) / "millrace" / "__init__.py").is_file() for folder in folders)


def test_spark_places_with_its_own_defaults(tmp_path: Path) -> None:
    settings = conf(OPTIONS, _app("restart_cluster", tmp_path))
    assert {key: settings[key] for key in settings if "ocality" in key} == {
        "spark.locality.wait": "3s",
        "spark.shuffle.reduceLocality.enabled": "true",
    }


def test_fixed_slots_start_with_their_number_and_no_allocation(tmp_path: Path) -> None:
    settings = conf(OPTIONS, _app("fixed_peak", tmp_path))
    assert settings["spark.cores.max"] == "6"
    assert "spark.dynamicAllocation.enabled" not in settings


def test_all_methods_run_the_same_script_and_only_the_ratio_has_a_trigger(tmp_path: Path) -> None:
    apps = {name: _app(name, tmp_path) for name in METHODS}
    assert len({app.script for app in apps.values()}) == 1
    assert len({app.args for name, app in apps.items() if name != "batch_ratio"}) == 1
    assert "--trigger-s=3" in apps["batch_ratio"].args

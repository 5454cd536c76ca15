"""Millrace in another team's Airflow: installed from a wheel, next to a project with its own ``include``."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.model.decision import Action
from millrace.run_folder.discovery import find
from tests.include.runtime.telemetry.arriving import arriving, files
from tests.jobs.adapting import tells_ability
from tests.jobs.driving import until
from tests.jobs.totals import HIGH, LOW, expected_totals, spec_text, total
from tests.own_airflow.environment import OwnAirflow, own_airflow

PLANTED = "planted-secret-of-airflow"

pytestmark = pytest.mark.platform


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("specs")
    submit = {"master": "local", "secrets": {"PLANTED": "airflow:variable/planted"}}
    lines = spec_text(folder, submit).splitlines(keepends=True)
    (folder / "totals.yaml").write_text("".join(line for line in lines if not line.startswith("executor:")))
    return folder


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, specs: Path) -> OwnAirflow:
    own = own_airflow(tmp_path_factory.mktemp("own"), specs)
    own.run("airflow", "db", "migrate")
    own.run("millrace", "setup")
    own.run("airflow", "variables", "set", "planted", PLANTED)
    return own


def test_dags_of_both_exist_without_an_error(airflow: OwnAirflow) -> None:
    airflow.run("airflow", "dags", "reserialize")
    assert "No data found" in airflow.run("airflow", "dags", "list-import-errors")
    # warnings come before it
    listed = airflow.run("airflow", "dags", "list", "--output=json").splitlines()[-1]
    dags = {dag["dag_id"] for dag in json.loads(listed)}
    assert {"own", "launch_totals", "adapt_totals", "approve_totals", "reconcile"} <= dags
    assert "launch_delays" not in dags
    assert "MillraceConsole" in airflow.run("airflow", "plugins", "--output=json")


def test_commands_that_need_a_checkout_say_so(airflow: OwnAirflow) -> None:
    assert "totals" in airflow.run("millrace", "pipelines")
    with pytest.raises(AssertionError, match=r"Clone the repository and run \./millrace demo there"):
        airflow.run("millrace", "demo")


def test_pipeline_is_launched_and_adapted(airflow: OwnAirflow, specs: Path) -> None:
    tables, results = ControlTables(Lake(airflow.home / "millrace" / "lake")), specs / "totals.json"
    with ExitStack() as feed:
        arrivals = feed.enter_context(arriving(files(specs / "in", "json"), LOW))
        stop = ("airflow", "dags", "test", "launch_totals", "--conf", '{"running": false}')
        feed.callback(airflow.run, *stop)
        airflow.run("airflow", "dags", "test", "launch_totals")
        (driver,) = find(airflow.home / "millrace" / "run" / "drivers", "totals")
        assert {psutil.Process(process.pid).environ()["PLANTED"] for process in driver.processes} == {PLANTED}

        def evaluated() -> bool:
            airflow.run("airflow", "dags", "test", "adapt_totals")
            return any(tells_ability(d) for d in tables.decisions.recent("totals", 10))

        until(evaluated, "an evaluation that knows what slots can process")
        arrivals.rows_per_s = HIGH

        def grown() -> bool:
            airflow.run("airflow", "dags", "test", "adapt_totals")
            return any(d.action is Action.APPLY for d in tables.decisions.recent("totals", 20))

        until(grown, "a decision for more slots")
        arrivals.rows_per_s = 0.0
        until(lambda: total(results) == arrivals.rows[-1], "all rows in the results")
        rows = arrivals.rows[-1]
    assert json.loads(results.read_text()) == expected_totals(rows)
    told = [file for file in (airflow.home / "millrace").rglob("*") if file.is_file()]
    assert not [file for file in told if PLANTED.encode() in file.read_bytes()]
    latest = tables.deployments.latest("totals")
    assert latest is not None and latest.apps["totals"].slots > 2

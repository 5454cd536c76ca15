import os
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from millrace.control.launch import launch
from millrace.control.pending_decision import refuse
from millrace.fleet.streams import Phase
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import DecisionStore
from millrace.lake.deployments import DeploymentStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.replays import ReplayStore
from millrace.lake.row_codec import executor_row, partition_run_row
from millrace.lake.store import Lake
from millrace.model.backtest import BacktestSummary
from millrace.model.decision import Action, Decision, Outcome, Reconfiguration
from millrace.model.deployment import ExecutorSize
from millrace.model.join import JoinSettings
from millrace.model.telemetry import ExecutorRun
from millrace.pipelines.catalog import find
from millrace.run_folder import driver_records
from millrace.run_folder.driver_records import DriverRecord, DriverState
from millrace.run_folder.process import ProcessId
from millrace.wiring import LAKE_VARIABLE
from tests.airflow_home import ROOT
from tests.include.control.test_partition_loads import run
from tests.include.reporting.fleets import at, decided, drive, planned
from tests.include.reporting.test_history import evaluation
from tests.include.run_folder import stand_in
from tests.s3.server import Bucket

pytestmark = pytest.mark.airflow
EVIL = "<script>alert('x')</script>"
NOW = datetime(2013, 1, 1, 12, tzinfo=UTC)


def test_airflow_loads_only_the_console_under_a_name_of_its_own() -> None:
    # a person's modules, such as alerts, may have the others' names
    ignored = (ROOT / "plugins" / ".airflowignore").read_text(encoding="utf-8").split("\n")
    assert {file.name for file in (ROOT / "plugins").glob("*.py")} - {*ignored} == {"console.py"}


@pytest.fixture(scope="module")
def api(airflow_db: Path) -> Iterator[TestClient]:
    """Airflow's own API server with its plugins, without a login."""
    from airflow.api_fastapi.app import create_app

    with TestClient(create_app(), base_url="http://testserver") as client:
        yield client


@pytest.fixture
def login(api: TestClient) -> dict[str, str]:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="admin", role="admin"))
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def lake(millrace_home: Path) -> Lake:
    return Lake(millrace_home / "lake")


def record(lake: Lake, sentence: str, run_id: str | None = None) -> None:
    decision = Decision("20130101T120000-1f3a9c04", "tiny", NOW, Action.APPLY, "under_provisioned", sentence)
    assert DecisionStore(lake).record(decision)
    if run_id is not None:
        DecisionStore(lake).record_run(decision, run_id, {})


@pytest.mark.parametrize("path", ["/millrace/", "/millrace/?pipeline=tiny"])
def test_page_without_a_login_is_refused(api: TestClient, lake: Lake, path: str) -> None:
    record(lake, "more slots")
    answer = api.get(path)
    assert answer.status_code == 401
    assert "more slots" not in answer.text


@pytest.mark.parametrize("path", ["docs", "redoc", "openapi.json"])
def test_api_pages_of_the_plugin_do_not_exist(api: TestClient, path: str) -> None:
    assert api.get(f"/millrace/{path}").status_code == 404


def test_page_when_texts_hold_markup_then_it_is_escaped(
    api: TestClient, lake: Lake, login: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000/")
    record(lake, EVIL, run_id="run/../'\"><b>")
    ReconfigurationStore(lake).record(
        Reconfiguration("tiny", "tiny", None, "T2", None, 1, 1, NOW, NOW, None, Outcome.FAILED, error=EVIL)
    )
    answer = api.get("/millrace/", params={"pipeline": "tiny"}, headers=login)
    assert answer.status_code == 200
    assert "<script" not in answer.text and "<b>" not in answer.text
    assert answer.text.count("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;") == 2
    assert 'href="http://127.0.0.1:5000/#/runs/run%2F..%2F%27%22%3E%3Cb%3E"' in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_page_of_an_unknown_pipeline_says_so_escaped(api: TestClient, lake: Lake, login: dict[str, str]) -> None:
    answer = api.get("/millrace/", params={"pipeline": EVIL}, headers=login)
    assert answer.status_code == 200
    assert "There is no pipeline &lt;script&gt;" in answer.text
    assert "<script" not in answer.text


def test_page_with_all_records_shows_them(
    api: TestClient, lake: Lake, login: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///no/page.db")
    record(lake, "2 -> 4 slots", run_id="abc123")
    DeploymentStore(lake).commit(find("tiny").first_deployment(), None)
    ReconfigurationStore(lake).record(
        Reconfiguration("tiny", "tiny", None, "T2", None, 1, 1, NOW, NOW, 1.54, Outcome.READY, achieved={"rate": 3.0})
    )
    text = api.get("/millrace/", params={"pipeline": "tiny"}, headers=login).text
    words = re.sub(r"<[^>]+>", " ", text)
    for expected in ("2 -&gt; 4 slots", "abc123", "version 1, running", "1.5 s", "rate 3", "first launch"):
        assert expected in words
    assert "#/runs/" not in text


def test_page_reads_a_lake_in_a_bucket(
    api: TestClient, millrace_home: Path, s3: Bucket, login: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LAKE_VARIABLE, s3.lake)
    record(Lake(s3.lake), "2 -> 4 slots")
    assert "2 -&gt; 4 slots" in api.get("/millrace/", params={"pipeline": "tiny"}, headers=login).text


def test_page_of_a_join_shows_its_settings(api: TestClient, lake: Lake, login: dict[str, str]) -> None:
    first = DeploymentStore(lake).commit(replace(find("tiny").first_deployment(), join=JoinSettings(3, 50, 0.25)), None)
    DeploymentStore(lake).commit(replace(first, join=JoinSettings(4, 50, 0.0)), 1)
    words = re.sub(r"<[^>]+>", " ", api.get("/millrace/", params={"pipeline": "tiny"}, headers=login).text)
    assert words.count("4 join workers, blocks of 50, 0 % shed") == 2, "wanted, and the newest version"
    assert words.count("3 join workers, blocks of 50, 25 % shed") == 1


def test_page_shows_where_state_partitions_run(api: TestClient, lake: Lake, login: dict[str, str]) -> None:
    first, now = find("tiny").first_deployment(), datetime.now(UTC)
    app = replace(first.apps["tiny"], executor=ExecutorSize(cores=1, memory_mb=512))
    DeploymentStore(lake).commit(replace(first, apps={"tiny": app}), None)
    runs = [run(0, p, pipeline="tiny", app="tiny", time=now, executor_number=w) for p, w in enumerate((0, 1, 1))]
    lake.append("telemetry/partitions", [partition_run_row(r) for r in runs])
    text = api.get("/millrace/", params={"pipeline": "tiny"}, headers=login).text
    words = re.sub(r"<[^>]+>", " ", text).split("State partitions")[1].split("What if")[0].split()
    assert " ".join(words).endswith("Operators q/0 Executor Busy 0 1 2 0 1.0 s 1.00 1 5.0 s 2.00 3.00")
    assert "takes 5.0 s" in " ".join(words) and "var(--hot) 67%" in text


def test_page_shows_executors_that_run_and_how_others_ended(
    api: TestClient, lake: Lake, login: dict[str, str], millrace_home: Path
) -> None:
    run_dir, now = millrace_home / "run" / "drivers", datetime.now(UTC)
    first = find("tiny").first_deployment()
    DeploymentStore(lake).commit(first, None)
    for generation, executor, ended, reason in (
        (1, "0", None, None),
        (2, "0", now - timedelta(hours=1), "Command exited with code 137"),
        (2, "1", now - timedelta(minutes=5), "Executor decommission: no longer needed"),
        (2, "2", None, None),
    ):
        started = now - timedelta(hours=9 - generation)
        lifetime = ExecutorRun(
            "tiny", "tiny", generation, executor, "host7", 2, 512, started, ended, reason, int(executor), 734, started
        )
        lake.append("telemetry/executors", [executor_row(lifetime)])

    def shown_executors() -> str:
        text = re.sub(r"<[^>]+>", " ", api.get("/millrace/?pipeline=tiny", headers=login).text)
        return " ".join(text.split("How it ended")[1].split("What if")[0].split())

    with stand_in.driver(run_dir, "tiny") as driver:
        process = ProcessId.of(driver.pid)
        running = DriverRecord("tiny", "tiny", 1, 1, 1, driver.pid, process.started, DriverState.RUNNING, now)
        running = replace(running, boot_id=process.boot_id, start_ticks=process.start_ticks)
        driver_records.write(run_dir, running)
        shown = shown_executors()
    assert re.findall(r"(\d) of driver (\d)", shown) == [("2", "2"), ("1", "2"), ("0", "2"), ("0", "1")]
    assert shown.count("512 MiB 734 MiB") == 4
    assert shown.count("runs") == 1 and "out of memory Command exited with code 137" in shown
    assert shown.endswith("with its driver –")
    shown = shown_executors()
    assert "runs" not in shown and shown.count("with its driver") == 2, "its driver was killed"
    DeploymentStore(lake).commit(replace(first, version=2, running=False), 1)
    shown = shown_executors()
    assert "runs" not in shown and shown.count("with its driver") == 2, "it was stopped"


def test_page_shows_executors_of_each_apps_newest_driver(
    api: TestClient, lake: Lake, login: dict[str, str], millrace_home: Path
) -> None:
    folder = Path(os.environ["MILLRACE_PIPELINES"])
    (folder / "chain.yaml").write_text("{name: chain, apps: {bronze: {script: tiny.py}, gold: {script: tiny.py}}}")
    DeploymentStore(lake).commit(find("chain").first_deployment(), None)
    run_dir, now = millrace_home / "run" / "drivers", datetime.now(UTC)
    for app, generation in (("bronze", 6), ("bronze", 7), ("gold", 2)):
        started = now - timedelta(hours=9 - generation)
        lifetime = ExecutorRun("chain", app, generation, "0", "host7", 2, 512, started)
        lake.append("telemetry/executors", [executor_row(lifetime)])
    with stand_in.driver(run_dir, "chain", "bronze", 7) as one, stand_in.driver(run_dir, "chain", "gold", 2) as other:
        for app, generation, driver in (("bronze", 7, one), ("gold", 2, other)):
            process = ProcessId.of(driver.pid)
            running = DriverRecord(
                "chain", app, generation, 1, 2, driver.pid, process.started, DriverState.RUNNING, now
            )
            running = replace(running, boot_id=process.boot_id, start_ticks=process.start_ticks)
            driver_records.write(run_dir, running)
        text = re.sub(r"<[^>]+>", " ", api.get("/millrace/?pipeline=chain", headers=login).text)
    shown = " ".join(text.split("How it ended")[1].split("What if")[0].split())
    assert re.findall(r"(\w+) – 0 of driver (\d)", shown) == [("bronze", "7"), ("gold", "2"), ("bronze", "6")]
    assert shown.count("runs") == 2 and shown.endswith("with its driver –")


def test_page_of_a_fleet_draws_streams_by_node_and_the_forecast(
    api: TestClient, lake: Lake, login: dict[str, str], millrace_home: Path
) -> None:
    folder = Path(os.environ["MILLRACE_PIPELINES"])
    (folder / "ingest.py").write_text("def stream(spark, name, options): ...\n")
    (folder / "ingest.yaml").write_text(
        "{name: ingest, fleet: {script: ingest.py, checkpoints: /c, nodes: {min: 1, max: 9, start: 2}, "
        f'streams: {{list: [orders, users, clicks, "{EVIL}"]}}}}, admission: {{capacity: 1000}}}}'
    )
    tables, run_dir = ControlTables(lake), millrace_home / "run" / "drivers"
    first = launch(find("ingest"), tables)
    assert first.ingest == {EVIL: 0, "clicks": 1, "orders": 0, "users": 1}
    plan = planned(first.ingest, {EVIL: 10.0, "clicks": 400.0, "orders": 300.0, "users": 1000.0})
    assert tables.decisions.record(replace(decided(plan), time=datetime.now(UTC)))
    tables.deployments.commit(replace(first, ingest={**first.ingest, "clicks": 0}, reason="node1 was full."), 1)
    drive(run_dir, "node0", (*at(Phase.FAILED, EVIL, failures=1, error="no table"), *at(Phase.RUNNING, "orders")))
    drive(run_dir, "node1", at(Phase.RUNNING, "clicks", "users"))
    text = api.get("/millrace/?pipeline=ingest", headers=login).text
    assert "<script" not in text
    assert re.findall(r'class="stream (\w*)"', text) == ["", "fails", "", "moves"], "orders, evil, users, clicks"
    assert text.count('class="load over"') == 1 and text.count('<path class="forecast"') == 1
    shown = " ".join(re.sub(r"<[^>]+>", " ", text).split())
    assert "2 of 9 needed: 2 slots" in shown and "Not needed now: node2, node3" in shown
    assert "1,400 of 1,000 rows/s, 140 %" in shown and "2 nodes; no plan needs fewer than 1." in shown
    assert "clicks node1 moves to node0 400 440 40 % – –" in shown
    assert "clicks node1 -&gt; node0 node1 was full." in shown
    assert "of at most" not in shown, "no drawing of nine apps"
    overview = api.get("/millrace/", headers=login).text
    assert "<td>2, 2</td>" in overview


@pytest.mark.parametrize("path", ["/millrace/", "/millrace/?pipeline=tiny"])
def test_page_shows_a_pipeline_without_records(api: TestClient, lake: Lake, login: dict[str, str], path: str) -> None:
    text = api.get(path, headers=login).text
    assert "?pipeline=tiny" in text
    assert "No evaluation yet." in text


@pytest.mark.parametrize("span", ["1h", "6h", "24h", "7d"])
def test_page_draws_measurements_and_decisions(api: TestClient, lake: Lake, login: dict[str, str], span: str) -> None:
    now = datetime.now(UTC)
    for minutes, slots, action in ((30, 2, Action.HOLD), (29, 2, Action.APPLY), (28, 4, Action.HOLD)):
        decision = evaluation(now - timedelta(minutes=minutes), slots, 80.0, action)
        assert DecisionStore(lake).record(replace(decision, pipeline="tiny"))
    text = api.get("/millrace/", params={"pipeline": "tiny", "span": span}, headers=login).text
    assert text.count('<path class="arrival"') == 1 and text.count('class="dot apply"') == 1
    assert "0.0667 core-hours" in text, "two slots for two minutes"
    assert "0.133 core-hours: 50 % saved" in text
    assert ("1, 0.14 per day" in text) is (span == "7d")
    overview = api.get("/millrace/", headers=login).text
    assert overview.count('<path class="arrival"') == 1 and f"at {now - timedelta(minutes=28):%H:%M}" in overview
    assert "0.0667, 50 % saved" in overview


def test_page_shows_the_whole_life_of_a_young_pipeline(api: TestClient, lake: Lake, login: dict[str, str]) -> None:
    DeploymentStore(lake).commit(find("tiny").first_deployment(), None)
    recorded = evaluation(datetime.now(UTC) - timedelta(minutes=4), 2, 80.0, Action.APPLY)
    assert DecisionStore(lake).record(replace(recorded, pipeline="tiny"))
    text = api.get("/millrace/", params={"pipeline": "tiny", "span": "7d"}, headers=login).text
    at = re.search(r'<circle class="dot apply" cx="([\d.]+)"', text)
    assert at is not None and 150 < float(at[1]) < 350, "a minute after the left end of five"


def test_page_shows_the_decisions_of_other_tuners(api: TestClient, lake: Lake, login: dict[str, str]) -> None:
    figures = {"reconfigurations": (4, 1), "core_s": (7200, 5400), "under_provisioned": (3, 0), "peak_slots": (8, 6)}
    told = {f"{name}_recorded": was for name, (was, _) in figures.items()}
    told |= {f"{name}_replayed": would for name, (_, would) in figures.items()}
    for minute, tuner in enumerate(("ds2", EVIL)):
        time = NOW + timedelta(minutes=minute)
        summary = BacktestSummary("tiny", time, tuner, {"alpha": 3}, f"{tuner} would have decided", told, None)
        ReplayStore(lake).record(summary)
    text = api.get("/millrace/", params={"pipeline": "tiny"}, headers=login).text
    words = " ".join(re.sub(r"<[^>]+>", " ", text).split())
    assert "ds2, alpha=3 1 (4) 1.5 (2) 0 (3) 6 (8)" in words
    assert "<script" not in text and "replay_tiny" in text


def test_page_refuses_an_unknown_span(api: TestClient, lake: Lake, login: dict[str, str]) -> None:
    assert api.get("/millrace/", params={"pipeline": "tiny", "span": "9y"}, headers=login).status_code == 422


def test_page_links_to_questions_that_wait_for_a_person(api: TestClient, lake: Lake, login: dict[str, str]) -> None:
    now = datetime.now(UTC)
    asked = replace(evaluation(now - timedelta(seconds=9), 2, 80.0, Action.AWAIT), pipeline="tiny")
    assert DecisionStore(lake).record(asked)
    link = f'href="../dags/approve_tiny/runs/{asked.decision_id}"'
    for path in ("/millrace/", "/millrace/?pipeline=tiny"):
        assert link in api.get(path, headers=login).text
    refuse(ControlTables(lake), "tiny", asked.decision_id, "ada", now)
    for path in ("/millrace/", "/millrace/?pipeline=tiny"):
        assert link not in api.get(path, headers=login).text


def test_page_says_what_does_not_run_and_which_changes_were_rolled_back(
    api: TestClient, lake: Lake, login: dict[str, str]
) -> None:
    DeploymentStore(lake).commit(find("tiny").first_deployment(), None)
    undone = evaluation(datetime.now(UTC) - timedelta(minutes=1), 2, 80.0, Action.ROLL_BACK)
    assert DecisionStore(lake).record(
        replace(undone, pipeline="tiny", sentence="Rolled back: it should have been enough")
    )
    for path in ("/millrace/", "/millrace/?pipeline=tiny"):
        assert "tiny does not run" in api.get(path, headers=login).text
    page = api.get("/millrace/?pipeline=tiny", headers=login).text
    assert "Rolled back: it should have been enough" in page and 'class="dot roll-back"' in page


def test_page_when_the_lake_is_broken_then_says_so(api: TestClient, lake: Lake, login: dict[str, str]) -> None:
    record(lake, "more slots")
    for log in lake.path("control/decisions").glob("_delta_log/*.json"):
        log.write_text("{")
    answer = api.get("/millrace/", params={"pipeline": "tiny"}, headers=login)
    assert answer.status_code == 503
    assert "readable Delta tables" in answer.text


def test_plugin_loaded_by_airflow_is_only_the_console(api: TestClient) -> None:
    from airflow import plugins_manager

    plugins, errors = plugins_manager._get_plugins()
    assert not errors
    ours = [p for p in plugins if p.name == "millrace"]
    assert len(ours) == 1
    assert ours[0].external_views[0]["href"] == "millrace/", "below the path at which Airflow is served"
    import sys

    imported_by_path = {"approval", "delta_commit", "outcomes"} & set(sys.modules)
    assert not imported_by_path, "a class would exist twice"

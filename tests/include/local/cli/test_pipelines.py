"""The commands for pipelines, on a home without a stack."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result

from millrace.drivers import failure_history
from millrace.drivers.failure_history import FailureHistory, fingerprint
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.local.cli.__main__ import millrace
from millrace.local.cli.pipelines import conf_for
from millrace.local.cli.status import pipeline_statuses
from millrace.local.doctor.pipelines import circuit
from millrace.local.stack.airflow_api import AirflowApi, StillRunningError
from millrace.model.contingency import Contingency, ContingencyPlan
from millrace.model.decision import Outcome
from millrace.model.errors import MillraceError
from millrace.model.join import JoinSettings
from millrace.model.query_failure import QueryFailure
from millrace.run_folder import driver_records
from millrace.run_folder.driver_records import DriverRecord, DriverState
from millrace.run_folder.process import ProcessId
from tests.include.local.demo.synthetic import Run, at, spec_of
from tests.include.run_folder import stand_in

NOTHING = {"--slots": None, "--dry-run": False, "--stop": False, "--roll-back-to": None}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    monkeypatch.delenv("MILLRACE_PIPELINES", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(spec_of(), Lake(home / "lake"), home / "source", monkeypatch)


def _call(*args: str) -> Result:
    return CliRunner().invoke(millrace, args, catch_exceptions=False, standalone_mode=False)


def test_pipelines_lists_the_built_in_one(home: Path) -> None:
    assert "delays" in _call("pipelines").output


def test_pipelines_lists_the_others_despite_a_wrong_spec(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "bad.yaml").write_text("name: bad\nscrypt: x.py\n")
    monkeypatch.setenv("MILLRACE_PIPELINES", str(home))
    result = _call("pipelines")
    assert result.return_value == 1
    assert "delays" in result.output
    assert "scrypt" in result.output


def test_pipelines_lists_a_spec_with_wrong_options_and_exits_1(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "x.py").write_text("")
    (home / "odd.yaml").write_text("name: odd\nscript: x.py\ntuner: {name: flow, options: {rizk: 1}}\n")
    monkeypatch.setenv("MILLRACE_PIPELINES", str(home))
    result = _call("pipelines")
    assert result.return_value == 1
    assert "odd: tuner.options.rizk: got 1" in result.output


def test_pipelines_shows_brackets_as_they_are_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "x.py").write_text("")
    (home / "good.yaml").write_text('name: good\nscript: x.py\ndescription: "[eu] and [/us]"\n')
    (home / "bad.yaml").write_text('name: bad\nscript: x.py\nmode: "[/bold] x"\n')
    monkeypatch.setenv("MILLRACE_PIPELINES", str(home))
    result = _call("pipelines")
    assert "[eu] and [/us]" in result.output
    assert "bad.yaml: mode: got '[/bold] x'" in result.output


@pytest.mark.parametrize("args", [("trigger", "nope"), ("pause", "nope"), ("resume", "nope"), ("decisions", "nope")])
def test_command_for_an_unknown_pipeline_names_the_existing_ones(home: Path, args: tuple[str, ...]) -> None:
    with pytest.raises(MillraceError, match=r"nope.*delays"):
        _call(*args)


@pytest.mark.parametrize("args", [("trigger", "delays"), ("pause", "delays"), ("resume", "delays")])
def test_command_when_stack_is_down_then_error_says_how_to_start_it(home: Path, args: tuple[str, ...]) -> None:
    with pytest.raises(MillraceError, match=r"\./millrace up"):
        _call(*args)


def test_pause_and_resume_include_the_approval_dag(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, bool]] = []

    class Paused:
        def set_paused(self, dag_id: str, paused: bool) -> None:
            told.append((dag_id, paused))

        def wait_for_task(self, dag_id: str, task_id: str, timeout_s: float) -> None:
            told.append((f"{dag_id}/{task_id}", True))

        def active_tasks(self, dag_id: str) -> set[str]:
            return {"evaluate", "apply"}

    monkeypatch.setattr(AirflowApi, "of", lambda home: Paused())
    output = _call("pause", "delays").output
    assert "An evaluation is under way" in output and "is being carried out" in output
    assert told == [("approve_delays", True), ("adapt_delays", True), ("adapt_delays/evaluate", True)]
    _call("resume", "delays")
    assert told[3:] == [("approve_delays", False), ("adapt_delays", False)]


@pytest.mark.parametrize(
    ("what", "given", "conf"),
    [
        ("launch", {}, {"running": True, "slots": None, "roll_back_to": None}),
        ("launch", {"--stop": True}, {"running": False, "slots": None, "roll_back_to": None}),
        ("launch", {"--roll-back-to": 3}, {"running": True, "slots": None, "roll_back_to": 3}),
        ("adapt", {"--slots": 4, "--dry-run": True}, {"slots": 4, "dry_run": True}),
        ("profile", {}, {}),
    ],
)
def test_conf_when_options_fit_then_matches_the_dags_params(what: str, given: dict[str, object], conf: object) -> None:
    assert conf_for(what, {**NOTHING, **given}) == conf


@pytest.mark.parametrize(
    ("what", "option"),
    [("launch", "--dry-run"), ("adapt", "--stop"), ("adapt", "--roll-back-to"), ("profile", "--slots")],
)
def test_conf_when_an_option_belongs_to_another_dag_then_error_names_it(what: str, option: str) -> None:
    with pytest.raises(MillraceError) as raised:
        conf_for(what, {**NOTHING, option: 1})
    assert raised.value.key == option


def test_decisions_when_empty_then_says_when_the_first_comes(home: Path) -> None:
    assert "first telemetry" in _call("decisions", "delays").output


def test_decisions_are_readable_at_100_columns_newest_last(run: Run) -> None:
    run.launch(0, 4, 1)
    run.evaluate(10, 20, None, "Stay at 1 slot: " + "20 rows/s came and 1 slot processes 50 rows/s, " * 3)
    run.evaluate(25, 150, 4, "150 rows/s came: 4 slots bring the utilisation below 0.8.")
    output = _call("decisions", "delays").output
    assert max(map(len, output.splitlines())) <= 100
    assert output.index("Stay at 1 slot") < output.index("150 rows/s came")
    assert "1 → 4" in output
    assert "01-01 08:00:25" in output


def test_decisions_show_no_plan_that_later_ones_do_not_have(run: Run) -> None:
    run.launch(0, 4, 1)
    planned = run.evaluate(10, 20, None, "Stay at 1 slot.")
    lines = (Contingency("delays", 4, 40.0, 2.0),)
    tables = ControlTables(run.lake)
    tables.decisions.record(replace(planned, decision_id=f"{planned.decision_id}b", contingencies=lines))
    inactive = "Planned ahead for delays, but inactive: delays gets 4 slots if more than 40 rows/s arrive."
    assert inactive in " ".join(_call("decisions", "delays").output.split())
    run.evaluate(25, 20, None, "Stay at 1 slot.")
    assert "Planned ahead" not in _call("decisions", "delays").output


def test_decisions_end_with_the_plan_for_more_arrival(run: Run, home: Path) -> None:
    run.launch(0, 4, 1)
    run.evaluate(10, 20, None, "Stay at 1 slot.")
    store = DeploymentStore(Lake(home / "lake"))
    latest = store.latest("delays")
    assert latest is not None and "Planned ahead" not in _call("decisions", "delays").output
    plan = ContingencyPlan("d1", (Contingency("delays", 4, 40.0, 2.0),))
    store.commit(replace(latest.with_plan(plan), decision_id=None), latest.version)
    output = _call("decisions", "delays").output
    assert output.endswith("Planned ahead for delays: delays gets 4 slots if more than 40 rows/s arrive.\n")


def test_decisions_as_json_are_complete_and_limited(run: Run) -> None:
    run.launch(0, 4, 1)
    for n in range(4):
        run.evaluate(10 + n, 20, None, f"evaluation {n}")
    found = json.loads(_call("decisions", "--json", "--limit", "2").output)
    assert [d["sentence"] for d in found] == ["evaluation 2", "evaluation 3"]
    assert found[0]["signals"]["apps"][0]["arrival_rows_per_s"] == 20


@pytest.fixture
def driver(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like the driver of version 1."""
    with stand_in.driver(home / "run" / "drivers", "delays") as process:
        yield process


def _record(home: Path, pid: int, state: DriverState, error: str | None = None) -> None:
    try:
        found = ProcessId.of(pid)
    except psutil.NoSuchProcess:
        found = ProcessId(pid, 1.0, "another boot", 1)
    record = DriverRecord(
        "delays", "delays", 1, 1, 1, pid, found.started, state, at(0), last_commit_at=at(30), error=error,
        boot_id=found.boot_id, start_ticks=found.start_ticks,
    )  # fmt: skip
    driver_records.write(home / "run" / "drivers", record)


def test_status_of_a_running_driver_needs_no_attention(run: Run, home: Path, driver: subprocess.Popen[bytes]) -> None:
    run.launch(0, 4, 1)
    _record(home, driver.pid, DriverState.RUNNING)
    (status,) = pipeline_statuses(ControlTables(run.lake), home / "run" / "drivers")
    assert status.problem is None
    assert status.cells(at(40))[1:4] == ["1 slots, version 1", "running on 1", "10 s ago"]


def test_status_names_a_failed_query_while_its_driver_runs(
    run: Run, home: Path, driver: subprocess.Popen[bytes]
) -> None:
    run.launch(0, 4, 1)
    _record(home, driver.pid, DriverState.RUNNING)
    (record,) = driver_records.all_of(home / "run" / "drivers", "delays", "delays")
    failure = QueryFailure("orders", at(30), "ValueError: poison")
    driver_records.write(home / "run" / "drivers", replace(record, failed_queries=(failure,)))
    (status,) = pipeline_statuses(ControlTables(run.lake), home / "run" / "drivers")
    assert status.problem == failure.sentence
    assert status.cells(at(40))[2] == "running on 1"


def test_status_shows_since_when_and_why_changes_do_not_reach_mlflow(
    run: Run, home: Path, driver: subprocess.Popen[bytes]
) -> None:
    run.launch(0, 4, 1)
    _record(home, driver.pid, DriverState.RUNNING)
    tables = ControlTables(run.lake)
    tables.report_problems.note("delays", "no such database", at(20))
    (status,) = pipeline_statuses(tables, home / "run" / "drivers")
    assert status.cells(at(40))[-1].endswith(
        "Changes have not been logged to MLflow since 2026-01-01 08:00 UTC: no such database"
    )
    assert status.problem is None  # the pipeline itself is well
    tables.report_problems.note("delays", None, at(60))
    (status,) = pipeline_statuses(tables, home / "run" / "drivers")
    assert status.unreported is None


def test_status_of_a_join_shows_its_workers(run: Run, home: Path) -> None:
    run.launch(0, 4, 1)
    made = DeploymentStore(run.lake).latest("delays")
    assert made is not None
    DeploymentStore(run.lake).commit(replace(made, join=JoinSettings(3, 50, 0.25)), made.version)
    (status,) = pipeline_statuses(ControlTables(run.lake), home / "run" / "drivers")
    assert status.cells(at(40))[1] == "1 slots, 3 join workers, version 2"
    assert status.as_plain()["join"] == {"workers": 3, "block": 50, "shed": 0.25}


def test_status_of_a_detached_pipeline_says_so_until_it_is_attached(run: Run, home: Path) -> None:
    run.launch(0, 4, 1)
    assert "Take it back" in _call("detach", "delays").output
    (status,) = pipeline_statuses(ControlTables(run.lake), home / "run" / "drivers")
    assert status.cells(at(40))[1] == "detached, 1 slots, version 2"
    assert status.problem is None and status.as_plain()["detached"]
    assert "version 3" in _call("attach", "delays").output
    (status,) = pipeline_statuses(ControlTables(run.lake), home / "run" / "drivers")
    assert status.problem is not None


def test_status_shows_an_open_change_of_any_app(run: Run, home: Path) -> None:
    run.launch(0, 4, 1)
    tables = ControlTables(run.lake)
    done = replace(tables.reconfigurations.recent("delays", 1)[0], generation=9, to_version=2)
    for change in (done, replace(done, app="next", generation=1, ended=None, outcome=Outcome.OPEN)):
        tables.reconfigurations.record(change)
    (status,) = pipeline_statuses(tables, home / "run" / "drivers")
    assert status.change is not None and status.change.app == "next"
    assert {c.type: c.status for c in status.conditions}["Scaling"] == "True"


def test_status_of_a_finished_pipeline_says_when(run: Run, home: Path) -> None:
    run.launch(0, 4, 1)
    made = DeploymentStore(run.lake).latest("delays")
    assert made is not None
    DeploymentStore(run.lake).commit(replace(made, running=False, finished=at(0)), made.version)
    (status,) = pipeline_statuses(ControlTables(run.lake), home / "run" / "drivers")
    assert status.cells(at(40))[1] == "finished at 08:00" and status.problem is None
    assert status.cells(at(86400))[1] == "finished 01-01 08:00"


def test_status_of_a_missing_process_says_so_despite_its_record(
    run: Run, home: Path, driver: subprocess.Popen[bytes]
) -> None:
    run.launch(0, 4, 1)
    _record(home, driver.pid, DriverState.RUNNING)
    driver.kill()
    driver.wait()
    (status,) = pipeline_statuses(ControlTables(run.lake), home / "run" / "drivers")
    assert status.problem is not None
    assert status.problem.startswith("delays does not run: its driver failed: ended before it was ready.")


def test_status_of_an_open_circuit_says_why_and_until_when(run: Run, home: Path) -> None:
    run.launch(0, 4, 1)
    made = DeploymentStore(run.lake).latest("delays")
    assert made is not None
    content, now = fingerprint(made.apps["delays"]), datetime.now(UTC)
    troubles = (
        FailureHistory().failed(content, 1, "ImportError: no x", now).failed(content, 1, "ImportError: no x", now)
    )
    failure_history.save(home / "run" / "drivers" / "delays" / "delays", troubles)
    result = _call("status", "--json")
    assert result.return_value == 1
    problem = json.loads(result.output)["pipelines"]["delays"]["problem"]
    assert problem.startswith("delays does not run: it failed 2 times; last error: ImportError: no x.")
    due = now + timedelta(seconds=60)
    told = [f"Next try at {due + timedelta(seconds=s):%H:%M:%S} UTC." for s in (0, 1)]
    assert any(f"{sentence} To retry now: `./millrace trigger delays`." in problem for sentence in told)


def test_status_of_a_stopped_pipeline_says_so_and_hides_earlier_failures(run: Run, home: Path) -> None:
    run.launch(0, 4, 1)
    run.evaluate(10, 20, None, "delays does not run: its driver keeps failing: no such topic.")
    made = DeploymentStore(run.lake).latest("delays")
    assert made is not None
    DeploymentStore(run.lake).commit(replace(made, running=False, author="ada"), made.version)
    (status,) = pipeline_statuses(ControlTables(run.lake), home / "run" / "drivers")
    assert status.cells(at(40))[-1] == "Stopped by ada. Start it: ./millrace trigger delays"
    assert circuit(status, home / "run" / "drivers").sentence == "It is stopped."


class Airflow:
    """An Airflow that reads a new spec when someone waits for it, and whose runs fail."""

    url = "http://airflow"

    def __init__(self) -> None:
        self.known: set[str] = set()

    def has_dag(self, dag_id: str) -> bool:
        return dag_id in self.known

    def wait_for_dag(self, dag_id: str) -> None:
        self.known.add(dag_id)

    def trigger(self, dag_id: str, conf: object) -> str:
        assert dag_id in self.known, "got 404"
        return "r1"

    def wait_for_run(self, dag_id: str, run_id: str, timeout_s: float) -> str:
        return "failed"

    def failures(self, dag_id: str, run_id: str) -> tuple[str, ...]:
        return ("script: got '/x.py'; allowed: an existing file. Create it or correct the path.",)


def test_trigger_waits_for_a_new_dag_and_prints_why_its_run_failed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = Airflow()
    monkeypatch.setattr(AirflowApi, "of", lambda home: airflow)
    result = _call("trigger", "delays")
    assert result.return_value == 1
    waited, outcome, reason = result.output.splitlines()[-3:]
    assert waited == "Airflow has not read the spec yet; waiting up to two minutes for launch_delays."
    assert outcome.startswith("launch_delays: failed")
    assert reason == "script: got '/x.py'; allowed: an existing file. Create it or correct the path."
    assert "has not read" not in _call("trigger", "delays").output


def test_trigger_does_not_wait_for_a_spec_that_the_stack_does_not_look_for(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = MillraceError("MILLRACE_PIPELINES", "/new", "/old", "To change it, run ./millrace down.")
    monkeypatch.setattr(AirflowApi, "of", lambda home: Airflow())
    monkeypatch.setattr("millrace.local.stack.lifecycle.started_otherwise", lambda home: other)
    with pytest.raises(MillraceError, match="MILLRACE_PIPELINES"):
        _call("trigger", "delays")


def test_trigger_waits_for_as_long_as_the_run_may_take(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    class Slow(Airflow):
        def wait_for_run(self, dag_id: str, run_id: str, timeout_s: float) -> str:
            waited.append(timeout_s)
            raise StillRunningError(f"{dag_id}/{run_id}", "running", f"ended within {timeout_s:g} s", "It continues.")

    (home / "x.py").write_text("")
    (home / "slow.yaml").write_text("name: slow\nscript: x.py\nready_deadline_s: 600\n")
    monkeypatch.setenv("MILLRACE_PIPELINES", str(home))
    monkeypatch.setattr(AirflowApi, "of", lambda home: Slow())
    result = _call("trigger", "slow")
    assert result.return_value == 1
    assert "launch_slow is still running: http://airflow/dags/launch_slow/runs/r1" in result.output
    (limit_s,) = waited
    assert limit_s > 2 * (2 * (600 + 60) + 60)

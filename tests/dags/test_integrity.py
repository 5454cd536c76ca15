import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException

from millrace.dags.builders import profile
from millrace.lake.store import Lake
from millrace.local.stack.services import TASKS_AT_A_TIME
from millrace.pipelines.catalog import load
from tests.airflow_home import ROOT, write_pipeline
from tests.dags.runs import launched

pytestmark = pytest.mark.airflow
TOO_HEAVY = ("pyspark", "mlflow", "great_expectations", "skopt", "sklearn", "scipy", "deltalake", "pyarrow", "pandas")
KINDS = ("launch", "adapt", "approve", "replay", "profile")


@pytest.fixture
def bag(millrace_home: Path) -> DagBag:
    return DagBag(ROOT / "dags")


def test_dags_when_parsed_then_exactly_the_expected_ones_exist(bag: DagBag) -> None:
    assert not bag.import_errors
    of_pipelines = {f"{kind}_{name}" for kind in KINDS for name in ("tiny", "delays")}
    assert set(bag.dags) == of_pipelines | {"reconcile", "maintain", "compact"}


def test_dags_when_parsed_then_each_is_described_and_bounded(bag: DagBag) -> None:
    for dag_id, dag in bag.dags.items():
        assert dag.doc_md and dag.doc_md.strip().count("\n") == 1, f"{dag_id}: two lines"
        assert "millrace" in dag.tags and dag_id.split("_")[0] in dag.tags
        assert dag.owner_links["millrace"].startswith("http://127.0.0.1:8080/millrace/")
        assert not dag.catchup
        assert dag.is_paused_upon_creation is False
        assert dag.max_active_runs == (16 if dag_id.startswith("approve") else 1)
        assert all(task.retries <= 2 for task in dag.tasks)


def test_dags_when_parsed_then_fit_the_schedulers_limits(bag: DagBag) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in bag.dags.values():
        stored = json.loads(json.dumps(DagSerialization.to_dict(dag)))
        assert DagSerialization.from_dict(stored).dag_id == dag.dag_id


def test_tasks_have_time_for_a_change_and_its_rollback(bag: DagBag) -> None:
    for name in ("tiny", "delays"):
        longest = timedelta(seconds=2 * (120 + 60) + 60)
        for dag_id, task in ((f"launch_{name}", "reconcile"), (f"adapt_{name}", "apply"), (f"approve_{name}", "apply")):
            assert bag.dags[dag_id].get_task(task).execution_timeout == longest


def test_reconcile_leaves_slots_to_evaluations(bag: DagBag) -> None:
    assert bag.dags["reconcile"].get_task("reconcile").max_active_tis_per_dag < TASKS_AT_A_TIME


def test_adapt_when_parsed_then_wakes_on_commits_of_its_own_pipeline(bag: DagBag, millrace_home: Path) -> None:
    (asset,) = bag.dags["adapt_tiny"].timetable.asset_condition.objects
    (watcher,) = asset.watchers
    path, arguments = watcher.trigger.serialize()
    assert path == "millrace.plugins.delta_commit.DeltaCommitTrigger"
    assert arguments["pipeline"] == "tiny"
    assert arguments["period_s"] == 5
    assert (arguments["lake"], arguments["table"]) == (str(millrace_home / "lake"), "telemetry/batches")


def test_task_needs_only_the_dags_of_its_pipeline(
    millrace_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "specs" / "broken.yaml").write_text("name: [")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "adapt_tiny")
    found = set(DagBag(ROOT / "dags" / "pipelines.py").dags)
    assert found == {f"{kind}_tiny" for kind in KINDS}


def test_profile_when_spec_has_none_then_has_no_dag(millrace_home: Path, tmp_path: Path) -> None:
    spec = tmp_path / "specs" / "tiny.yaml"
    spec.write_text(spec.read_text().split("profile:")[0])
    assert "profile_tiny" not in DagBag(ROOT / "dags").dags


def test_profile_arguments_contain_no_shell_and_no_secret(bag: DagBag, millrace_home: Path) -> None:
    task = bag.dags["profile_tiny"].get_task("profile")
    given = task.application_args.value
    arguments = dict(zip(given[::2], given[1::2], strict=True))
    source = str(millrace_home / "data" / "source")
    asked = {"--pipeline": "tiny", "--lake": str(millrace_home / "lake"), "--source": source, "--time-column": "time"}
    assert arguments == asked | {"--period-s": "60", "--stream": "origin"}
    assert bag.dags["profile_tiny"].timetable.expression == "*/10 * * * *"


def test_profile_runs_on_schedule_only_while_the_pipeline_runs(bag: DagBag, millrace_home: Path) -> None:
    task = bag.dags["profile_tiny"].get_task("profile")

    def prepare(run_type: str) -> None:
        task._pre_execute_hook({"task": task, "dag_run": SimpleNamespace(run_type=run_type)})

    with pytest.raises(AirflowSkipException, match="tiny does not run"):
        prepare("scheduled")
    prepare("manual")
    launched(Lake(millrace_home / "lake"))
    prepare("scheduled")


def test_profile_arguments_with_braces_stay_as_in_the_spec(millrace_home: Path, tmp_path: Path) -> None:
    spec = load(tmp_path / "specs" / "tiny.yaml")
    assert spec.profile is not None
    task = profile.build(spec, spec.profile.model_copy(update={"source": "/data/{{ ds }}"})).get_task("profile")
    task.render_template_fields({"ds": "2026-01-01"})
    assert "/data/{{ ds }}" in task.application_args


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("name: worse\nscript: tiny.py\nslots: {max: 0}\n", ("worse.yaml: slots.max", "0", "Fix `slots.max`")),
        ("name: worse\nscript: tiny.py\nslot: 3\n", ("worse.yaml: slot", "a known key")),
        ("name: [", ("worse.yaml", "a readable YAML file")),
        ("name: worse\nscript: not_there.py\n", ("worse.yaml: script", "not_there.py", "an existing file")),
        ("name: tiny\nscript: tiny.py\n", ("worse.yaml: name", "a unique name")),
    ],
)
def test_wrong_spec_is_an_import_error_and_hides_no_dag(
    millrace_home: Path, tmp_path: Path, broken: str, told: tuple[str, ...]
) -> None:
    (tmp_path / "specs" / "worse.yaml").write_text(broken)
    bag = DagBag(ROOT / "dags")
    assert {f"{kind}_tiny" for kind in KINDS} <= set(bag.dags)
    assert {f"{kind}_delays" for kind in KINDS} <= set(bag.dags)
    (file,) = bag.import_errors
    assert file.endswith("spec_problems.py")
    for words in told:
        assert words in bag.import_errors[file]


def test_a_pipeline_when_added_then_its_dags_appear(millrace_home: Path, tmp_path: Path) -> None:
    write_pipeline(tmp_path / "more")
    more = tmp_path / "more" / "tiny.yaml"
    more.write_text(more.read_text().replace("name: tiny", "name: more"))
    os.environ["MILLRACE_PIPELINES"] += f":{tmp_path / 'more'}"
    assert {f"{kind}_more" for kind in KINDS} <= set(DagBag(ROOT / "dags").dags)


@pytest.mark.parametrize("lake", ["", "s3://bucket/lake", "gs://bucket/lake"])
def test_dags_when_parsed_then_nothing_heavy_is_imported(
    millrace_home: Path, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_LAKE", lake)
    program = (
        "import sys, json; from airflow.dag_processing.dagbag import DagBag; "
        f"bag = DagBag({str(ROOT / 'dags')!r}); assert 'adapt_tiny' in bag.dags, bag.import_errors; "
        f"print(json.dumps([m for m in {TOO_HEAVY!r} if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []


@pytest.mark.parametrize("name", ["launch_tiny", "adapt_tiny", "approve_tiny", "replay_tiny"])
def test_params_when_listed_then_have_a_schema(bag: DagBag, name: str) -> None:
    dag: DAG = bag.dags[name]
    schemas = {key: dag.params.get_param(key).schema for key in dag.params}
    expected = {
        "launch_tiny": {"running", "slots", "roll_back_to"},
        "adapt_tiny": {"slots", "dry_run"},
        "approve_tiny": {"decision_id"},
        "replay_tiny": {"tuner", "options", "since", "until"},
    }
    assert set(schemas) == expected[name]
    assert all("type" in schema for schema in schemas.values())
    if "slots" in schemas:
        assert (schemas["slots"]["minimum"], schemas["slots"]["maximum"]) == (1, 4)


def test_reconcile_runs_each_minute_and_wakes_when_a_driver_is_due(bag: DagBag, millrace_home: Path) -> None:
    timetable = bag.dags["reconcile"].timetable
    assert timetable.timetable.delta == timedelta(minutes=1)
    (asset,) = timetable.asset_condition.objects
    path, arguments = asset.watchers[0].trigger.serialize()
    assert path == "millrace.plugins.driver_end.DriverEndTrigger"
    assert arguments == {"run_dir": str(millrace_home / "run" / "drivers"), "lake": str(millrace_home / "lake")}


def test_reconcile_leaves_drivers_to_the_runner(bag: DagBag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_RUNNER", "1")
    assert DagBag(ROOT / "dags").dags["reconcile"].timetable.delta == timedelta(minutes=1)

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from millrace.model.admission_spec import StreamMetadata
from millrace.model.errors import MillraceError
from millrace.model.spec import PipelineSpec
from millrace.model.spec_sections import Slots
from millrace.optimizers.drfm.metadata import Metadata
from millrace.optimizers.drfm.options import AdmissionPolicy
from millrace.optimizers.registry import all_of, problems
from millrace.pipelines.catalog import DEFAULTS, FOLDERS_VARIABLE, OTHER_SUFFIX, find, load, load_all
from millrace.places import PACKAGE

GOOD: dict[str, Any] = {"name": "orders", "script": "orders.py"}
PROFILE = {"source": "x", "time_column": "t", "stream": ["origin"]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "orders.py").write_text("")
    monkeypatch.setenv(FOLDERS_VARIABLE, str(tmp_path))
    monkeypatch.setenv("MILLRACE_HOME", "/somewhere")
    return tmp_path


def written(folder: Path, content: object, name: str = "orders.yaml") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else as_yaml(content), encoding="utf-8")
    return path


def as_yaml(content: object) -> str:
    text = io.StringIO()
    YAML(typ="safe", pure=True).dump(content, text)
    return text.getvalue()


def refused(path: Path) -> MillraceError:
    with pytest.raises(MillraceError) as told:
        load(path)
    assert path.name in told.value.key
    assert told.value.allowed
    assert told.value.remedy
    return told.value


def test_spec_with_only_required_keys_gets_defaults(folder: Path) -> None:
    spec = load(written(folder, GOOD))
    assert (spec.name, spec.app, spec.submit.master, spec.slots) == ("orders", "orders", "embedded", Slots())
    assert spec.script == str(folder / "orders.py")
    assert (spec.tuner.name, spec.owners) == ("flow", {})
    assert spec.first_deployment().apps["orders"].slots == 1


def test_defaults_of_a_folder_apply_to_specs_that_do_not_override_them(folder: Path) -> None:
    written(folder, {"mode": "approve", "guards": {"cool_down_s": 9}}, DEFAULTS)
    written(folder, GOOD)
    written(folder, {**GOOD, "name": "other", "mode": "auto", "guards": {}}, "other.yaml")
    specs, problems = load_all()
    assert not problems and specs.keys() >= {"orders", "other"}
    assert (specs["orders"].mode, specs["orders"].guards.cool_down_s) == ("approve", 9)
    assert specs["other"].mode == "auto" and specs["other"].guards.cool_down_s != 9, "a section is taken as a whole"


def test_defaults_may_have_the_other_suffix_of_yaml(folder: Path) -> None:
    written(folder, {"mode": "approve"}, OTHER_SUFFIX)
    assert load(written(folder, GOOD)).mode == "approve"
    written(folder, {"moed": "auto"}, OTHER_SUFFIX)
    with pytest.raises(MillraceError, match=r"_defaults.yml: moed"):
        load(written(folder, GOOD))
    written(folder, {"mode": "auto"}, DEFAULTS)
    with pytest.raises(MillraceError, match=r"_defaults.yml: .*one file with defaults"):
        load(written(folder, GOOD))


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"name": "all"}, "_defaults.yaml: name"),
        ({"mode": "wild"}, "_defaults.yaml: mode"),
        ({"moed": "auto"}, "_defaults.yaml: moed"),
        ("- 3", "_defaults.yaml"),
        ("a: [", "_defaults.yaml"),
    ],
)
def test_wrong_defaults_are_named_by_their_file(folder: Path, content: object, key: str) -> None:
    written(folder, content, DEFAULTS)
    with pytest.raises(MillraceError) as told:
        load(written(folder, GOOD))
    assert told.value.key == key and told.value.remedy


def test_tuner_owns_slots_and_no_one_owns_the_drivers_memory(folder: Path) -> None:
    others = {"executor_memory_mb": "executor_memory", "placement": "albic", "max_parallelism": "spec"}
    others["batch_limit"] = "batch_limits"
    assert load(written(folder, GOOD)).field_owners == {"slots": "flow", "parallelism": "flow", **others}
    chosen = load(written(folder, {**GOOD, "tuner": {"name": "ds2"}, "owners": {"memory_mb": "drfm", "slots": "drfm"}}))
    assert chosen.field_owners == {"slots": "drfm", "parallelism": "ds2", "memory_mb": "drfm", **others}


def test_load_replaces_home_everywhere(folder: Path) -> None:
    args = ["--to=${MILLRACE_HOME}/x", "$9 ${OTHER}", "^a$$b$", "$${MILLRACE_HOME}", "$MILLRACE_HOME"]
    spec = load(written(folder, {**GOOD, "args": args, "submit": {"conf": {"a": "${MILLRACE_HOME}"}}}))
    assert spec.args == ("--to=/somewhere/x", "$9 ${OTHER}", "^a$$b$", "$/somewhere", "$MILLRACE_HOME")
    assert spec.submit.conf == {"a": "/somewhere"}


@pytest.mark.parametrize("home", ["home", "./x/../home"])
def test_home_is_the_same_however_it_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MILLRACE_HOME", home)
    assert load(written(folder, {**GOOD, "args": ["${MILLRACE_HOME}/x"]})).args == (str(folder / "home" / "x"),)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"slotz": {"max": 3}}, "slotz"),
        ({"slots": {"maximum": 3}}, "slots.maximum"),
        ({"submit": {"deploy_mode": "cluster"}}, "submit.deploy_mode"),
        ({"name": "Big Orders"}, "name"),
        ({"name": "../etc"}, "name"),
        ({"name": None}, "name"),
        ({"slots": {"min": 4, "max": 2, "start": 4}}, "slots"),
        ({"slots": {"min": 0}}, "slots.min"),
        ({"slots": 4}, "slots"),
        ({"memory_mb": 10}, "memory_mb"),
        ({"memory_mb": "much"}, "memory_mb"),
        ({"max_parallelism": 0}, "max_parallelism"),
        ({"objective": {"target_utilisation": 0}}, "objective.target_utilisation"),
        ({"objective": {"target_utilisation": 1.01}}, "objective.target_utilisation"),
        ({"objective": {"max_lag_s": -1}}, "objective.max_lag_s"),
        ({"objective": {"catch_up_s": float("nan")}}, "objective.catch_up_s"),
        ({"objective": {"catch_up_s": float("inf")}}, "objective.catch_up_s"),
        ({"period_s": 0.5}, "period_s"),
        ({"period_s": float("inf")}, "period_s"),
        ({"mode": "automatic"}, "mode"),
        ({"owners": {"cores": "flow"}}, "owners"),
        ({"guards": {"quiet_hours": ["late"]}}, "guards.quiet_hours.0"),
        ({"guards": {"quiet_hours": ["25:00-26:99"]}}, "guards.quiet_hours.0"),
        ({"guards": {"quiet_hours": ["00:00-24:00", "00:00-00:00"]}}, "guards.quiet_hours"),
        ({"guards": {"quiet_hours": ["24:00-00:00"]}}, "guards.quiet_hours"),
        ({"submit": {"master": "mesos"}}, "submit.master"),
        ({"submit": {"master": "local; rm -rf /"}}, "submit.master"),
        ({"profile": {"source": "x", "stream": ["origin"]}}, "profile.time_column"),
        ({"profile": {"source": "x", "time_column": "t"}}, "profile.stream"),
        ({"profile": {**PROFILE, "stream": []}}, "profile.stream"),
        ({"profile": {**PROFILE, "schedule": "every 10 minutes"}}, "profile.schedule"),
        ({"profile": {**PROFILE, "schedule": "61 * * * *"}}, "profile.schedule"),
        ({"profile": {**PROFILE, "schedule": "* * * *"}}, "profile.schedule"),
        ({"profile": {**PROFILE, "schedule": ""}}, "profile.schedule"),
        ({"placement": {"budget": 8}}, "placement.budget"),
        ({"placement": {}, "submit": {"master": "local"}}, "placement"),
        ({"admission": {"capacity": 1.0}}, "admission"),
        ({"admission": {"capacity": 1.0, "ingest": ["a", "a"]}}, "admission"),
        ({"admission": {"capacity": 1.0, "ingest": ["a"], "report_s": 0}}, "admission.report_s"),
        ({"admission": {}}, "admission.capacity"),
        ({"admission": {"capacity": 0}}, "admission.capacity"),
        ({"admission": {"capacity": 1.0, "unfinished": -1}}, "admission.unfinished"),
        ({"admission": {"capacity": 1.0, "streams": {"a/b": {"minimun": 1}}}}, "admission.streams.a/b.minimun"),
        ({"admission": {"capacity": 1.0, "streams": {"a": {"maximum": -1}}}}, "admission.streams.a.maximum"),
        ({"admission": {"capacity": 1.0, "streams": {"a": {"average": float("nan")}}}}, "admission.streams.a.average"),
        ({"admission": {"capacity": 1.0, "streams": {"a": {"transition": "leap"}}}}, "admission.streams.a.transition"),
        ({"admission": {"capacity": 1.0, "sizing": {}}}, "admission.sizing.query_s"),
        ({"admission": {"capacity": 1.0, "sizing": {"query_s": 1, "headroom": 1}}}, "admission.sizing.headroom"),
        ({"args": "--one --two"}, "args"),
        ({"script": 7}, "script"),
    ],
    ids=str,
)
def test_wrong_value_is_named_with_key_and_allowed_range(folder: Path, change: dict[str, Any], key: str) -> None:
    assert refused(written(folder, {**GOOD, **change})).key == f"orders.yaml: {key}"


@pytest.mark.parametrize(
    ("written_as", "read_as"),
    [("c/d", "{folder}/c/d"), ("../c", "{parent}/c"), ("~/c", "{home}/c"), ("/c/", "/c/"), ("s3a://b/c", "s3a://b/c")],
)
def test_relative_paths_belong_to_the_specs_folder(folder: Path, written_as: str, read_as: str) -> None:
    wanted = read_as.format(folder=folder, parent=folder.parent, home=Path.home())
    for kind in ("folders", "file"):
        fleet = {"script": "orders.py", "checkpoints": written_as, "streams": {kind: written_as}}
        ingest = load(written(folder, {"name": "orders", "fleet": fleet}))
        assert ingest.fleet is not None and ingest.fleet.script == str(folder / "orders.py")
        assert (ingest.fleet.checkpoints, ingest.fleet.streams.source) == (wanted, {kind: wanted})
        assert ingest.first_deployment().apps["node0"].args[-2:] == ("--checkpoints", wanted)
    own = "/c" if "://" in written_as else written_as  # a join writes only to folders
    join = {
        "streams": {"a": {"source": written_as, "time": "t", "columns": ["k"]}},
        "tasks": {"pairs": {"left": "a", "right": "a", "on": ["k"], "within_s": 60}},
        **{"results": own, "checkpoint": own, "capacity": 100},
    }
    joined = load(written(folder, {"name": "orders", "join": join}))
    assert joined.join is not None
    definition = joined.join.definition
    assert definition.streams[0].source == wanted
    assert definition.results == definition.checkpoint == ("/c" if own == "/c" else wanted)
    profiled = load(written(folder, {**GOOD, "profile": {**PROFILE, "source": written_as}}))
    assert profiled.profile is not None and profiled.profile.source == wanted


@pytest.mark.parametrize(("key", "value"), [("admission", True), ("apps", ["a"])])
def test_fleet_with_a_section_that_is_no_mapping_is_refused(folder: Path, key: str, value: object) -> None:
    fleet = {"script": "orders.py", "checkpoints": "/c", "streams": {"list": ["a"]}}
    problem = refused(written(folder, {"name": "orders", "fleet": fleet, key: value}))
    assert (problem.key, problem.value) == (f"orders.yaml: {key}", value)


def test_error_shows_the_wrong_value_only(folder: Path) -> None:
    secret = {"submit": {"env": {"TOKEN": "hidden"}}}
    for wrong in ({"executor": {"cores": 2}, "slots": {"max": 7}}, {"placement": {}, "submit": {"env": 1}}):
        assert "hidden" not in str(refused(written(folder, {**GOOD, **secret, **wrong})))
    nameless = {key: value for key, value in GOOD.items() if key != "name"}
    problem = refused(written(folder, {**nameless, **secret}))
    assert (problem.value, problem.remedy) == (None, "Set `name`.")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a\n- b\n",
        "just text",
        "name: [unclosed",
        "a: b: c",
        "name: !!python/object:x 1",
        "\x00",
        "%",
        "name: orders\nname: twice\nscript: a\n  b: c",
    ],
)
def test_load_of_malformed_yaml_names_the_file(folder: Path, text: str) -> None:
    assert refused(written(folder, text)).key == "orders.yaml"


def test_load_of_a_missing_or_binary_file_names_it(folder: Path) -> None:
    path = folder / "orders.yaml"
    refused(path)
    path.write_bytes(b"\xff\xfe\x00name")
    refused(path)


def test_missing_script_is_named_with_its_path(folder: Path) -> None:
    problem = refused(written(folder, {**GOOD, "script": "nowhere.py"}))
    assert problem.key == "orders.yaml: script"
    assert str(folder / "nowhere.py") in problem.remedy


def test_duplicate_section_is_refused_with_both_lines(folder: Path) -> None:
    guards = "name: orders\nscript: orders.py\nguards:\n  max_total_slots: 4\nmode: auto\nguards: {cool_down_s: 9}\n"
    problem = refused(written(folder, guards))
    assert problem.value == "lines 3 and 6: `guards` twice"
    written(folder, "mode: auto\nguards: {cool_down_s: 1, cool_down_s: 2}\n", DEFAULTS)
    with pytest.raises(MillraceError, match=r"_defaults.yaml: got 'line 2: `cool_down_s` twice'"):
        load(written(folder, GOOD))


@pytest.mark.parametrize(("value", "shown"), [("true", True), ("8080", 8080), ("1.10", 1.1)])
def test_text_that_yaml_reads_as_something_else_needs_quotes(folder: Path, value: str, shown: object) -> None:
    problem = refused(written(folder, f"name: orders\nscript: orders.py\nsubmit: {{conf: {{a: {value}}}}}\n"))
    assert (problem.key, problem.value) == ("orders.yaml: submit.conf.a", shown)
    assert problem.remedy == "Write `submit.conf.a` in quotes."


@pytest.mark.parametrize(
    ("conf", "remedy"),
    [
        ({"spark.executor.memory": "4g"}, "`executor.memory_mb`"),
        ({"spark.executor.cores": "4"}, "`executor.cores`"),
        ({"spark.executor.instances": "4"}, "`slots`"),
        ({"spark.driver.memory": "4g"}, "`memory_mb`"),
        ({"spark.sql.shuffle.partitions": "4"}, "`max_parallelism`"),
        ({"spark.master": "yarn"}, "`submit.master`"),
        ({"spark.app.name": "mine"}, "`name`"),
        ({"spark.submit.deployMode": "cluster"}, "Remove it"),
        ({"spark.dynamicAllocation.maxExecutors": "4"}, "`slots` and `executor`"),
        ({"spark.task.cpus": "0"}, "Correct it"),
        ({"spark.task.cpus": "two"}, "Correct it"),
        ({"spark.task.cpus": "2"}, "Raise `executor.cores` to 2"),
    ],
    ids=str,
)
def test_setting_that_millrace_would_override_names_the_key_to_use(
    folder: Path, conf: dict[str, str], remedy: str
) -> None:
    problem = refused(written(folder, {**GOOD, "submit": {"conf": conf}}))
    (name,) = conf
    assert problem.key == f"orders.yaml: submit.conf.{name}" and remedy in problem.remedy


def test_settings_that_concern_only_the_job_are_accepted(folder: Path) -> None:
    names = (
        "spark.plugins",
        "spark.extraListeners",
        "spark.jars",
        "spark.sql.extensions",
        "spark.executor.memoryOverhead",
    )
    conf = {**dict.fromkeys(names, "x"), "spark.submit.deployMode": "client"}
    assert load(written(folder, {**GOOD, "submit": {"conf": conf}})).submit.conf == conf


def test_slots_are_multiples_of_an_executors_tasks(folder: Path) -> None:
    several = {**GOOD, "submit": {"conf": {"spark.task.cpus": "2"}}, "executor": {"cores": 4}}
    spec = load(written(folder, {**several, "slots": {"min": 2, "max": 6, "start": 4}}))
    assert spec.bounds_contract().step == 2 and spec.first_deployment().apps["orders"].executors == 2
    problem = refused(written(folder, {**several, "slots": {"min": 1, "max": 6, "start": 2}}))
    assert "executor.cores / spark.task.cpus, 2" in problem.allowed
    local = load(written(folder, {**GOOD, "submit": {"master": "local", "conf": {"spark.task.cpus": "2"}}}))
    assert local.bounds_contract().step == 1


@pytest.mark.parametrize("schedule", ["*/10 * * * *", "@hourly", "15 3 * * mon-fri", "0 0 1 jan *"])
def test_schedule_is_kept_as_written(folder: Path, schedule: str) -> None:
    spec = load(written(folder, {**GOOD, "profile": {**PROFILE, "schedule": schedule}}))
    assert spec.profile is not None and spec.profile.schedule == schedule


def test_load_when_the_schedule_is_not_a_cron_expression_then_shows_one(folder: Path) -> None:
    problem = refused(written(folder, {**GOOD, "profile": {**PROFILE, "schedule": "61 * * * *"}}))
    assert (problem.value, problem.remedy) == ("61 * * * *", "Fix `profile.schedule`.")
    assert "*/10 * * * *" in problem.allowed


def test_placement_without_executors_is_refused_with_a_remedy(folder: Path) -> None:
    problem = refused(written(folder, {**GOOD, "placement": {}, "submit": {"master": "local"}}))
    assert "needs executors" in problem.allowed and "embedded" in problem.allowed


def test_load_when_several_values_are_wrong_then_counts_the_rest(folder: Path) -> None:
    assert "1 more problem " in str(refused(written(folder, {**GOOD, "period_s": 0, "mode": "x"})))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda c: (
            st.lists(c, max_size=3)
            | st.dictionaries(st.sampled_from([*PipelineSpec.model_fields, "min", "max", "start"]), c, max_size=4)
        ),
        max_leaves=8,
    )
)
def test_any_content_is_a_spec_or_a_problem(tmp_path_factory: pytest.TempPathFactory, content: object) -> None:
    folder = tmp_path_factory.getbasetemp() / "anything"
    folder.mkdir(exist_ok=True)
    (folder / "a.py").write_text("")
    whole = {"name": "orders", "script": "a.py", **content} if isinstance(content, dict) else content
    path = written(folder, as_yaml(whole))
    try:
        spec = load(path, {"MILLRACE_HOME": "/x"})
    except MillraceError as problem:
        assert problem.key.startswith("orders.yaml")
    else:
        assert PipelineSpec.model_validate_json(spec.model_dump_json()) == spec


def test_load_all_with_one_bad_spec_keeps_the_good_ones(folder: Path) -> None:
    written(folder, GOOD)
    written(folder, {**GOOD, "name": "other"}, "other.yaml")
    written(folder, GOOD, "twin.yaml")
    written(folder, "name: [", "zbroken.yml")
    specs, problems = load_all()
    assert {"orders", "other"} <= set(specs)
    assert {p.key for p in problems} == {"twin.yaml: name", "zbroken.yml"}


def test_script_of_an_unknown_user_does_not_hide_other_pipelines(folder: Path) -> None:
    written(folder, GOOD)
    written(folder, {"name": "other", "script": "~nobody_x/a.py"}, "other.yaml")
    specs, problems = load_all()
    assert "orders" in specs and "other" not in specs
    (problem,) = problems
    assert (problem.key, problem.value) == ("other.yaml: script", "~nobody_x/a.py")


@pytest.mark.parametrize("closed", ["other.py", DEFAULTS])
def test_path_that_may_not_be_read_is_a_problem_of_its_spec(
    folder: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    is_file = Path.is_file

    def checked(path: Path) -> bool:
        if path.name == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", checked)
    written(folder, {**GOOD, "script": "other.py"})
    (problem,) = [p for p in load_all()[1] if "orders.yaml" in p.key or str(folder) in str(p.value)]
    assert "Permission denied" in problem.remedy


def test_find_when_the_name_is_unknown_then_names_the_existing_ones(folder: Path) -> None:
    written(folder, GOOD)
    with pytest.raises(MillraceError, match="orders"):
        find("ordres")
    assert find("orders").name == "orders"


def test_find_reports_the_error_in_the_pipelines_file(folder: Path) -> None:
    written(folder, {**GOOD, "period_s": 0})
    with pytest.raises(MillraceError) as told:
        find("orders")
    assert told.value.key == "orders.yaml: period_s"


def test_find_reports_the_error_in_a_file_of_another_name(
    folder: Path,
) -> None:
    written(folder, {**GOOD, "period_s": 0}, "team-a.yaml")
    with pytest.raises(MillraceError) as told:
        find("orders")
    assert told.value.key == "team-a.yaml: period_s"


@pytest.mark.parametrize("missing", ["/does/not/exist", "~nobody_x/specs"])
def test_load_all_when_a_folder_is_missing_then_reads_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    written(folder, GOOD)
    monkeypatch.setenv(FOLDERS_VARIABLE, os.pathsep.join([missing, "", str(folder)]))
    specs, problems = load_all()
    assert "orders" in specs
    assert [(problem.key, problem.value) for problem in problems] == [(FOLDERS_VARIABLE, missing)]
    with pytest.raises(MillraceError) as told:
        find("ordres")
    assert f"{missing} (does not exist), {folder}." in told.value.remedy


def test_folder_that_is_named_twice_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(folder, GOOD)
    monkeypatch.setenv(FOLDERS_VARIABLE, f"{folder}{os.pathsep}{folder}/")
    assert load_all()[1] == []


def test_folder_that_may_not_be_read_is_a_problem(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def closed(path: object) -> object:
        if path == folder:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    written(folder, GOOD)
    monkeypatch.setattr(os, "scandir", closed)
    specs, problems = load_all()
    assert "orders" not in specs
    assert [(problem.key, problem.value) for problem in problems] == [(FOLDERS_VARIABLE, str(folder))]
    with pytest.raises(MillraceError) as told:
        find("orders")
    assert f"{folder} (cannot be read: Permission denied)" in told.value.remedy


def test_hidden_files_of_editors_are_no_specs(folder: Path) -> None:
    written(folder, GOOD)
    (folder / ".#orders.yaml").symlink_to("ada@host.4711:1764550000")  # Emacs, while a file has unsaved changes
    written(folder, "\x00\x05\x16", "._orders.yaml")  # macOS, on a network drive
    assert load_all()[1] == []
    assert find("orders").name == "orders"


def test_built_in_specs_are_all_valid() -> None:
    specs, problems = load_all()
    assert not problems
    assert "delays" in specs


def test_admission_options_are_passed_to_its_optimizer(folder: Path) -> None:
    rates = dict.fromkeys(("minimum", "average", "maximum"), 1.0)
    whole = {name: 4.0 for name in StreamMetadata.model_fields} | rates | {"transition": "trend", "period": 8.0}
    stream = {name: whole[name] for name in whole if name not in ("slope", "slope_duration")}
    wanted = {"capacity": 2.0, "streams": {"a/b": stream, "c": {}}, "sizing": {"query_s": 1.5}}
    spec = load(written(folder, {**GOOD, "profile": PROFILE, "admission": wanted, "objective": {"max_lag_s": 7}}))
    assert spec.admission_options is not None and spec.admission_options["sizing"]["latency_s"] == 7
    made = AdmissionPolicy.read(spec.admission_options)
    assert made.capacity == 2.0 and made.sizing is not None and made.sizing.latency_s == 7
    assert {name: getattr(made.streams["a/b"], name) for name in stream} == stream
    assert set(StreamMetadata.model_fields) == set(Metadata.model_fields)
    assert load(written(folder, GOOD)).admission_options is None


def test_option_refused_by_an_optimizer_is_named(folder: Path) -> None:
    fast = {"capacity": 1.0, "streams": {"a/b": {"minimum": 3.0, "maximum": 2.0}}}
    bad = load(written(folder, {**GOOD, "profile": PROFILE, "admission": fast}))
    good = load(written(folder, {**GOOD, "profile": PROFILE, "admission": {"capacity": 1.0}}))
    assert set(all_of(good)) == {"flow", "drfm", "executor_memory", "batch_limits"}
    (found,) = problems([good, bad])
    assert found.key == "orders: admission.streams.a/b.maximum"
    assert found.value == 2.0 and found.allowed and found.remedy


def test_config_hash_changes_with_any_value(folder: Path) -> None:
    plain = load(written(folder, GOOD))
    assert plain.config_hash == load(written(folder, GOOD)).config_hash
    assert plain.config_hash != load(written(folder, {**GOOD, "period_s": 61})).config_hash


def test_examples_load_and_drfm_owns_the_routing_of_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_HOME", "/somewhere")
    folder = PACKAGE / "pipelines" / "examples"
    spec = load(folder / "departures.yaml")
    assert Path(spec.script).is_file()
    assert spec.field_owners["ingest"] == "drfm" and spec.stream_period_s == 10
    assert problems([spec]) == [] and set(all_of(spec)) == {"flow", "drfm", "executor_memory", "batch_limits"}

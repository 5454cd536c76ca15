"""How a driver is started: argument list, environment, detachment."""

from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.drivers import submit
from millrace.drivers.submit import RUN_SCRIPT, SubmitOptions
from millrace.model.deployment import AppDeployment, ExecutorSize
from millrace.model.errors import MillraceError
from millrace.model.spec_sections import Submit
from millrace.model.submit_options import EmbeddedCluster
from millrace.places import SOURCES
from millrace.run_folder.arguments import DriverArguments, recognise
from millrace.run_folder.rescale_record import Verb

JARS = (Path("/jars/a.jar"), Path("/jars/b.jar"))
OPTIONS = SubmitOptions(Path("/spark/bin/spark-submit"), JARS, {"spark.driver.extraJavaOptions": "-Xshare:auto"})
ARGUMENTS = DriverArguments("p", "a", 3, 2, 4, 0, Path("/run"), "/lake", 60.0, 120.0, 60.0, Path("/s.py"))
TEXT = st.text(st.characters(exclude_characters="\0\r", exclude_categories=("Cs",)))


def _app(args: tuple[str, ...] = (), **changes: object) -> AppDeployment:
    return AppDeployment(
        "/s.py", args, 4, 2048, 16, Submit.model_validate({"master": "local", **changes}).model_dump(mode="json")
    )


def _value(argv: list[str], option: str) -> str:
    return argv[argv.index(option) + 1]


def _conf(argv: list[str]) -> dict[str, str]:
    return dict(argv[i + 1].split("=", 1) for i, word in enumerate(argv) if word == "--conf")


@given(st.lists(TEXT, max_size=5))
def test_command_keeps_odd_characters_in_one_argument(words: list[str]) -> None:
    arguments = replace(ARGUMENTS, args=tuple(words))
    argv = submit.command(OPTIONS, _app(tuple(words)), arguments)
    assert recognise(argv) == arguments
    assert argv[len(argv) - len(words) :] == words


@pytest.mark.parametrize("word", ["a\0b", "a\rb"])
def test_command_refuses_characters_that_would_be_lost(word: str) -> None:
    with pytest.raises(MillraceError, match="args"):
        submit.command(OPTIONS, _app((word,)), replace(ARGUMENTS, args=(word,)))


def test_command_on_local_sets_slots_memory_and_partitions() -> None:
    argv = submit.command(OPTIONS, _app(), ARGUMENTS)
    assert _value(argv, "--master") == "local[4]"
    assert _value(argv, "--driver-memory") == "2048m"
    assert "--jars" not in argv and "spark.cores.max" not in _conf(argv)
    assert _conf(argv)["spark.authenticate"] == "true"
    assert _conf(argv)["spark.sql.shuffle.partitions"] == "16"
    assert _conf(argv)["spark.ui.enabled"] == "false"


def test_command_on_a_cluster_bounds_cores_and_ships_jars() -> None:
    argv = submit.command(OPTIONS, _app(master="spark://host:7077", jars=["/mine.jar"]), ARGUMENTS)
    assert _value(argv, "--master") == "spark://host:7077"
    assert _conf(argv)["spark.cores.max"] == "4"
    assert _value(argv, "--jars") == "/mine.jar,/jars/a.jar,/jars/b.jar"


def test_secret_reaches_the_environment_only_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    file.chmod(0o600)
    app = _app(secrets={"TOKEN": str(file)})
    assert submit.environment(OPTIONS, app, {})["TOKEN"] == "s3cret"
    assert not any("s3cret" in word for word in submit.command(OPTIONS, app, ARGUMENTS))
    assert "s3cret" not in str(app)


def test_secret_stored_in_airflow_is_requested_from_it() -> None:
    app = _app(secrets={"TOKEN": "airflow:variable/token"})
    options = replace(OPTIONS, secret_of={"airflow:variable/token": "s3cret"}.__getitem__)
    assert submit.environment(options, app, {})["TOKEN"] == "s3cret"
    assert not any("s3cret" in word for word in submit.command(options, app, ARGUMENTS))
    with pytest.raises(MillraceError, match=r"submit\.secrets\.TOKEN: got 'airflow:variable/token'; allowed: a file"):
        submit.environment(OPTIONS, app, {})


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [
        (None, 0o600, "No such file"),
        (b"x", 0o640, "chmod 600"),
        (b"", 0o600, "Write the value"),
        (b"a\0b", 0o600, "without NUL"),
        (b"\xff", 0o600, "not UTF-8 text"),
    ],
)
def test_unusable_secret_is_reported_without_its_value(
    tmp_path: Path, content: bytes | None, mode: int, told: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
        file.chmod(mode)
    with pytest.raises(MillraceError, match=rf"submit\.secrets\.TOKEN.*{told}"):
        submit.environment(OPTIONS, _app(secrets={"TOKEN": str(file)}), {})


def test_jars_of_connectors_are_passed_once_fetched() -> None:
    app = _app(connectors=["kafka"], jars=["/mine.jar"])
    with pytest.raises(MillraceError, match=r"kafka.*millrace setup kafka"):
        submit.command(OPTIONS, app, ARGUMENTS)
    fetched = replace(OPTIONS, connectors={"kafka": (Path("/jars/kafka.jar"),)})
    assert _value(submit.command(fetched, app, ARGUMENTS), "--jars") == "/mine.jar,/jars/kafka.jar"
    assert _value(submit.rescale_command(fetched, app, Verb.UNDO, Path("/run")), "--jars").endswith("/kafka.jar")


def test_job_that_rescales_state_runs_here_with_the_apps_settings(tmp_path: Path) -> None:
    app = replace(_app(master="spark://host:7077", conf={"spark.x": "1"}), executor=ExecutorSize(2, 700), slots=5)
    argv = submit.rescale_command(OPTIONS, app, Verb.UNDO, tmp_path)
    assert _value(argv, "--master").startswith("local[") and _value(argv, "--driver-memory") == "2048m"
    assert _conf(argv)["spark.x"] == "1" and not any("dynamicAllocation" in key for key in _conf(argv))
    assert argv[-3:] == [str(submit.RESCALE), "undo", str(tmp_path)] and submit.RESCALE.is_file()
    assert recognise(argv) is None


def test_command_with_executors_starts_with_those_of_the_deployment() -> None:
    app = replace(_app(master="spark://host:7077"), executor=ExecutorSize(2, 700), slots=5)
    conf = _conf(submit.command(OPTIONS, app, ARGUMENTS))
    bounds = {conf[f"spark.dynamicAllocation.{name}Executors"] for name in ("min", "initial", "max")}
    assert bounds == {"3"}
    assert (conf["spark.executor.cores"], conf["spark.executor.memory"]) == ("2", "700m")
    assert conf["spark.default.parallelism"] == conf["spark.sql.shuffle.partitions"] == "16"
    assert "spark.cores.max" not in conf and "spark.executorEnv.PYTHONPATH" not in conf
    wait = {"spark.locality.wait.process": "10s"}
    changed = replace(app, submit=Submit(master="spark://host:7077", conf=wait).model_dump(mode="json"))
    assert submit.conf(OPTIONS, changed)["spark.locality.wait.process"] == "10s"


def test_command_on_the_embedded_cluster_logs_in_with_a_file() -> None:
    options = replace(OPTIONS, cluster=EmbeddedCluster("spark://127.0.0.1:7077", Path("/home/secrets/spark.conf")))
    app = replace(_app(master="embedded"), executor=ExecutorSize(1, 512))
    argv = submit.command(options, app, ARGUMENTS)
    assert _value(argv, "--master") == "spark://127.0.0.1:7077"
    assert _value(argv, "--properties-file") == "/home/secrets/spark.conf"
    assert "--jars" not in argv
    # executors share the driver's class archive, and a script's own modules come before Millrace's
    assert _conf(argv)["spark.executor.extraJavaOptions"] == "-Xshare:auto"
    assert _conf(argv)["spark.executorEnv.PYTHONPATH"].split(os.pathsep) == ["/", str(SOURCES)]


@pytest.mark.parametrize("master", ["embedded", "spark://host:7077"])
def test_jvms_get_only_the_pipelines_compiler_and_collector_options(master: str) -> None:
    options = replace(OPTIONS, cluster=EmbeddedCluster("spark://127.0.0.1:7077"))
    app = replace(_app(master=master), executor=ExecutorSize(1, 512))
    archive = ["-Xshare:auto"] if master == "embedded" else []
    assert submit.conf(options, app).get("spark.executor.extraJavaOptions", "").split() == archive
    java = {f"spark.{jvm}.extraJavaOptions": "-XX:+UseG1GC" for jvm in ("driver", "executor")}
    own = replace(app, submit={**app.submit, "conf": java})
    assert submit.conf(options, own)["spark.executor.extraJavaOptions"].split() == [*archive, "-XX:+UseG1GC"]
    assert submit.conf(options, own)["spark.driver.extraJavaOptions"] == "-Xshare:auto -XX:+UseG1GC"


def test_python_workers_find_millrace_and_the_pipelines_own_modules() -> None:
    options = replace(OPTIONS, cluster=EmbeddedCluster("spark://127.0.0.1:7077"))
    app = replace(
        _app(master="embedded", conf={"spark.executorEnv.PYTHONPATH": "/mine"}), executor=ExecutorSize(1, 512)
    )
    assert submit.conf(options, app)["spark.executorEnv.PYTHONPATH"].split(os.pathsep) == ["/", str(SOURCES), "/mine"]


def test_lists_of_settings_are_passed_with_those_of_options() -> None:
    conf = {"spark.jars": "/c.jar, /mine.jar", "spark.jars.packages": "g:b:2", "spark.submit.pyFiles": "/z.zip"}
    argv = submit.command(OPTIONS, _app(packages=["g:a:1"], jars=["/mine.jar"], conf=conf), ARGUMENTS)
    assert _value(argv, "--jars") == "/mine.jar,/c.jar"
    assert (_value(argv, "--packages"), _value(argv, "--py-files")) == ("g:a:1,g:b:2", "/z.zip")
    assert not conf.keys() & _conf(argv).keys()
    elsewhere = replace(_app(master="spark://host:7077", conf={"spark.jars": "/c.jar"}), executor=ExecutorSize(1, 512))
    assert _value(submit.command(OPTIONS, elsewhere, ARGUMENTS), "--jars") == "/jars/a.jar,/jars/b.jar,/c.jar"


def test_tasks_of_several_cores_take_that_many_threads_and_executors() -> None:
    conf = {"spark.task.cpus": "2"}
    assert _value(submit.command(OPTIONS, _app(conf=conf), ARGUMENTS), "--master") == "local[8]"
    app = replace(_app(master="spark://host:7077", conf=conf), executor=ExecutorSize(4, 700), slots=6)
    assert _conf(submit.command(OPTIONS, app, ARGUMENTS))["spark.dynamicAllocation.maxExecutors"] == "3"


def test_embedded_cluster_that_is_down_is_named_with_a_remedy() -> None:
    app = replace(_app(master="embedded"), executor=ExecutorSize(1, 512))
    with pytest.raises(MillraceError, match=r"submit\.master.*\./millrace up"):
        submit.command(OPTIONS, app, ARGUMENTS)


def test_driver_of_a_remote_cluster_does_not_use_the_loopback_address() -> None:
    options = replace(OPTIONS, conf={"spark.driver.host": "127.0.0.1"}, env={"SPARK_LOCAL_IP": "127.0.0.1"})
    here = ("local", "spark://127.0.0.1:7077", "spark://[::1]:7077")
    elsewhere = (
        "yarn",
        "k8s://cluster",
        "k8s://https://127.0.0.1:6443",
        "spark://master:7077",
        "spark://127.0.0.1:7077,master:7077",
    )
    airflow = {"HADOOP_CONF_DIR": "/etc/hadoop", "SPARK_LOCAL_IP": "127.0.0.1"}  # `up` passes it to Airflow, too
    for master, stays in (*((m, True) for m in here), *((m, False) for m in elsewhere)):
        app = _app(master=master)
        assert ("spark.driver.host" in submit.conf(options, app)) is stays
        assert ("SPARK_LOCAL_IP" in submit.environment(options, app, airflow)) is stays
    own = {**airflow, "SPARK_LOCAL_IP": "192.0.2.7"}
    env = submit.environment(replace(options, env={}), _app(master="spark://master:7077"), own)
    assert env["SPARK_LOCAL_IP"] == "192.0.2.7", "an address that others reach stays"
    told = _app(master="spark://master:7077", conf={"spark.driver.host": "me"})
    assert submit.conf(options, told)["spark.driver.host"] == "me"


def test_executors_of_a_kubernetes_on_this_machine_get_none_of_its_paths() -> None:
    app = replace(_app(master="k8s://https://127.0.0.1:6443"), executor=ExecutorSize(1, 512))
    conf = submit.conf(OPTIONS, app)
    assert not conf.keys() & {"spark.executorEnv.PYTHONPATH", "spark.python.daemon.module"}
    assert "spark.executor.extraClassPath" not in conf and "spark.executor.extraJavaOptions" not in conf


def test_lost_executors_on_kubernetes_are_replaced_by_ones_of_the_same_size() -> None:
    recovery, master = "spark.kubernetes.allocation.recoveryMode.enabled", "k8s://https://api.example:6443"
    size = ExecutorSize(2, 512)
    assert submit.conf(OPTIONS, replace(_app(master=master), executor=size))[recovery] == "false"
    own = replace(_app(master=master, conf={recovery: "true"}), executor=size)
    assert submit.conf(OPTIONS, own)[recovery] == "true"


def test_yarn_needs_to_know_where_its_configuration_is() -> None:
    with pytest.raises(MillraceError, match=r"submit\.env.*HADOOP_CONF_DIR or YARN_CONF_DIR"):
        submit.environment(OPTIONS, _app(master="yarn"), {"HOME": "/home/me"})
    told = _app(master="yarn", env={"YARN_CONF_DIR": "/etc/yarn"})
    assert submit.environment(OPTIONS, told, {})["YARN_CONF_DIR"] == "/etc/yarn"


def test_command_applies_the_pipelines_packages_files_and_conf() -> None:
    conf = {
        "spark.ui.enabled": "true",
        "spark.driver.extraJavaOptions": "-Dmine=1",
        "spark.sql.shuffle.partitions": "200",
    }
    argv = submit.command(OPTIONS, _app(packages=["g:a:1"], py_files=["/x.py", "/y.zip"], conf=conf), ARGUMENTS)
    assert _value(argv, "--packages") == "g:a:1"
    assert _value(argv, "--py-files") == "/x.py,/y.zip"
    assert _conf(argv)["spark.ui.enabled"] == "true"
    assert _conf(argv)["spark.driver.extraJavaOptions"] == "-Xshare:auto -Dmine=1"
    assert _conf(argv)["spark.sql.shuffle.partitions"] == "16"  # fixed by the Deployment: state depends on it


def test_environment_keeps_airflow_and_spark_out_of_the_driver() -> None:
    inherited = {
        "AIRFLOW__CORE__FERNET_KEY": "secret",
        "AIRFLOW_HOME": "/x",
        "_AIRFLOW_X": "1",
        "MLFLOW_TRACKING_PASSWORD": "secret",
        "PYSPARK_GATEWAY_PORT": "1",
        "PYTHONPATH": "/repo",
        "HOME": "/home/me",
    }
    options = replace(OPTIONS, python=Path("/venv/python"), env={"SPARK_LOCAL_IP": "127.0.0.1"})
    env = submit.environment(options, _app(env={"MINE": "1"}), inherited)
    assert env == {
        "HOME": "/home/me",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": "/venv/python",
        "PYSPARK_DRIVER_PYTHON": "/venv/python",
        "PYTHONUNBUFFERED": "1",
        "MINE": "1",
    }
    assert submit.environment(options, _app(python="/other"), inherited)["PYSPARK_PYTHON"] == "/other"


TELL = """#!{python}
import json, os, sys
print(json.dumps([sys.argv[1:], os.getcwd(), os.getsid(0) == os.getpid(), sorted(os.listdir("/proc/self/fd"))]))
"""


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=3))
def test_start_passes_odd_characters_to_a_separate_session(tmp_path: Path, words: list[str]):
    program = tmp_path / "spark-submit"
    program.write_text(TELL.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    log = tmp_path / "log" / "driver.log"
    log.unlink(missing_ok=True)
    app, arguments = _app(tuple(words), cwd=str(tmp_path)), replace(ARGUMENTS, args=tuple(words))
    with (tmp_path / "open").open("w"):
        child = submit.start(replace(OPTIONS, spark_submit=program), app, arguments, log)
    assert child.wait() == 0
    argv, folder, own_session, descriptors = json.loads(log.read_text())
    assert recognise(argv) == arguments
    assert (folder, own_session) == (str(tmp_path), True)
    assert len(descriptors) == 4  # three streams and the listing itself


@pytest.mark.parametrize("changes", [{"cwd": "/does/not/exist"}, {}])
def test_start_when_folder_or_program_is_missing_then_says_which(tmp_path: Path, changes: dict[str, str]) -> None:
    options = replace(OPTIONS, spark_submit=tmp_path / "nothing")
    arguments = replace(ARGUMENTS, script=tmp_path / "s.py")
    with pytest.raises(MillraceError, match="submit.cwd" if changes else "spark-submit"):
        submit.start(options, _app(**changes), arguments, tmp_path / "log")


@pytest.mark.spark
def test_spark_submit_passes_odd_characters_untouched(tmp_path: Path) -> None:
    from millrace.environment import spark_env

    words = ("", " a b ", "ä€😀", 'it\'s "quoted"', "$HOME `id` $(id)", "*?[a]", "\\n", "line\nbreak", "--conf", "-- x")
    program = tmp_path / "tell.py"
    program.write_text("import json, sys\nopen(sys.argv[1], 'w').write(json.dumps(sys.argv[2:]))\n")
    argv = [str(spark_env.spark_submit()), "--master", "local[1]", str(program), str(tmp_path / "told"), *words]
    import subprocess

    env = {**os.environ, **spark_env.environment()}
    subprocess.run(argv, env=env, check=True, capture_output=True)
    assert json.loads((tmp_path / "told").read_text()) == list(words)


def test_run_script_when_named_then_is_there() -> None:
    assert RUN_SCRIPT.is_file()

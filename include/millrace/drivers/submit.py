"""How a driver is started: the arguments of spark-submit, its environment, and a process in its own session."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from millrace.drivers.executor_conf import CLUSTER, executor_conf, local_executor_conf, login, master_address
from millrace.drivers.spark_environment import with_environment
from millrace.model.deployment import AppDeployment
from millrace.model.errors import MillraceError
from millrace.model.master import EMBEDDED, LOCAL, YARN, is_loopback, is_loopback_host
from millrace.model.spec import absolute_path
from millrace.model.spec_sections import Submit
from millrace.model.submit_options import FROM_AIRFLOW, SecretOf, conf_words
from millrace.model.submit_options import SubmitOptions as SubmitOptions
from millrace.places import PACKAGE, SOURCES
from millrace.run_folder.arguments import DriverArguments
from millrace.run_folder.rescale_record import ENTRY_POINT, Verb
from millrace.run_folder.rescale_record import arguments as job_arguments

RUN_SCRIPT = PACKAGE / "jobs" / "run_script.py"
RESCALE = PACKAGE / "jobs" / ENTRY_POINT

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""Settings for small micro-batches. A pipeline's own ``submit.conf`` overrides them; its script does not."""

DELTA_DEFAULTS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Settings that a session needs to read and write Delta tables."""

JOINED = {
    "spark.driver.extraJavaOptions": " ",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.executor.extraJavaOptions": " ",
    "spark.executor.extraClassPath": os.pathsep,
    # without Millrace's path, Python workers cannot start
    "spark.executorEnv.PYTHONPATH": os.pathsep,
}
"""Settings to which a pipeline's value is appended, because Millrace's own is needed and does not contradict it."""

LISTS = {"--packages": "spark.jars.packages", "--jars": "spark.jars", "--py-files": "spark.submit.pyFiles"}
"""Options of spark-submit that replace the settings of the same meaning."""

LOOPBACK_CONF = frozenset({"spark.driver.host", "spark.driver.bindAddress"})
LOOPBACK_VARIABLE = "SPARK_LOCAL_IP"
"""These keep a driver's ports private to this machine."""

HADOOP_CONF = frozenset({"HADOOP_CONF_DIR", "YARN_CONF_DIR"})
"""With either of these variables, spark-submit finds YARN."""

NOT_INHERITED = (
    *("AIRFLOW", "_AIRFLOW", "MLFLOW_", "OPENBLAS_", "PYSPARK_", "_PYSPARK"),
    *("SPARK_ENV_LOADED", "PYTHONPATH", "PYTHONHASHSEED"),
)
"""Prefixes of variables that belong to the reconciler's caller and not to a driver, including secrets."""


def command(options: SubmitOptions, app: AppDeployment, arguments: DriverArguments) -> list[str]:
    """Return the argument list that starts a driver. It runs without a shell.

    Raises:
        MillraceError: If an argument contains a character that spark-submit's own shell script cannot pass on.
    """
    submit = _submit(app)
    options = with_environment(options, submit)
    argv = [str(options.spark_submit), "--name", f"{arguments.pipeline}/{arguments.app}"]
    master = master_address(submit.master, options.cluster)
    argv += [
        "--master",
        f"local[{app.slots * app.task_cpus}]" if master == LOCAL else master,
        *login(options, submit.master),
    ]
    argv += ["--driver-memory", f"{app.memory_mb}m"]
    jars = [*_jars(options, submit), *map(str, options.jars if submit.master not in (LOCAL, EMBEDDED) else ())]
    lists = {"--packages": (*options.packages, *submit.packages), "--jars": jars, "--py-files": submit.py_files}
    argv += _settings(conf(options, app), lists)
    argv += [str(RUN_SCRIPT), *arguments.argv()]
    for argument in argv:
        if "\0" in argument or "\r" in argument:
            remedy = "Pass such text in a file or an environment variable."
            raise MillraceError("args", argument, "text without NUL or carriage return", remedy)
    return argv


def conf(options: SubmitOptions, app: AppDeployment) -> dict[str, str]:
    """Return the Spark settings of a driver: Millrace's, overridden by the pipeline's, and what a Deployment fixes."""
    submit = _submit(app)
    merged = {**DEFAULTS, **(DELTA_DEFAULTS if options.has_delta else {}), **options.conf}
    if app.executor is not None:
        same_paths = submit.master == EMBEDDED or _on_this_machine(submit, options)
        merged |= {**CLUSTER, **executor_conf(app, app.executor)}
        if same_paths:
            merged |= local_executor_conf(options.conf, (script_path(app).parent, SOURCES))
    elif submit.master == LOCAL:
        merged["spark.authenticate"] = "true"  # it listens on a port and generates its own secret
    else:  # a benchmark's rival, whose executors Spark manages
        merged["spark.cores.max"] = str(app.slots)
    for key, value in submit.conf.items():
        merged[key] = f"{merged[key]}{JOINED[key]}{value}" if key in JOINED and key in merged else value
    if not _on_this_machine(submit, options):
        # executors elsewhere must reach the driver, so it cannot stay on the loopback address
        for key in LOOPBACK_CONF - set(submit.conf):
            merged.pop(key, None)
    merged["spark.sql.shuffle.partitions"] = str(app.max_parallelism)
    return merged


def environment(options: SubmitOptions, app: AppDeployment, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return a driver's environment.

    Args:
        options: The installation's settings.
        app: The app; its ``submit.env`` wins.
        inherited: The caller's environment. Variables of Airflow and of a surrounding Spark are dropped.

    Raises:
        MillraceError: If a secret cannot be read, others can read its file, or YARN's address is not set.
    """
    submit = _submit(app)
    options = with_environment(options, submit)
    env = {k: v for k, v in inherited.items() if not k.startswith(NOT_INHERITED)}
    env.update(options.env)
    if not _on_this_machine(submit, options) and is_loopback_host(env.get(LOOPBACK_VARIABLE, "")):
        del env[LOOPBACK_VARIABLE]
    interpreter = submit.python or (str(options.python) if options.python else None)
    if interpreter:
        env["PYSPARK_PYTHON"] = env["PYSPARK_DRIVER_PYTHON"] = interpreter
    env["PYTHONUNBUFFERED"] = "1"
    env.update(submit.env)
    if submit.master == YARN and not env.keys() & HADOOP_CONF:
        allowed = f"{' or '.join(sorted(HADOOP_CONF))} for the master yarn"
        raise MillraceError(
            "submit.env", "no Hadoop settings", allowed, "Set it to the folder of the cluster's yarn-site.xml."
        )
    env.update({name: _secret(name, source, options.secret_of) for name, source in submit.secrets.items()})
    return env


def start(options: SubmitOptions, app: AppDeployment, arguments: DriverArguments, log: Path) -> subprocess.Popen[bytes]:
    """Start a driver as a detached process: own session, files as its only streams.

    Args:
        options: The installation's settings.
        app: The app to run.
        arguments: The driver's own arguments.
        log: File to which everything that it prints is appended.

    Raises:
        MillraceError: If spark-submit, the working folder or the log's folder does not exist.
    """
    submit = _submit(app)
    folder = Path(submit.cwd).expanduser() if submit.cwd else arguments.script.parent
    if not folder.is_dir():
        raise MillraceError("submit.cwd", str(folder), "an existing folder", "Create it or correct the path.")
    return _spawn(command(options, app, arguments), folder, environment(options, app, os.environ), log)


def start_rescale(
    options: SubmitOptions, app: AppDeployment, verb: Verb, folder: Path, log: Path
) -> subprocess.Popen[bytes]:
    """Start the job that rescales an app's state, as a detached process.

    Args:
        options: The installation's settings.
        app: The app; its settings reach the checkpoints.
        verb: What the job does.
        folder: The app's folder under the run folder.
        log: File to which everything that it prints is appended.

    Raises:
        MillraceError: If spark-submit or the log's folder does not exist.
    """
    env = environment(options, _without_executors(app), os.environ)
    return _spawn(rescale_command(options, app, verb, folder), folder, env, log)


def rescale_command(options: SubmitOptions, app: AppDeployment, verb: Verb, folder: Path) -> list[str]:
    """Return the argument list that starts the job on this machine, with the app's settings but no executors.

    Args:
        options: The installation's settings.
        app: The app.
        verb: What the job does.
        folder: The app's folder under the run folder.
    """
    submit, local = _submit(app), _without_executors(app)
    options = with_environment(options, _submit(local))
    argv = [str(options.spark_submit), "--name", f"rescale {folder.name}", "--master", f"local[{os.cpu_count()}]"]
    argv += ["--driver-memory", f"{app.memory_mb}m"]
    argv += _settings(
        conf(options, local), {"--packages": (*options.packages, *submit.packages), "--jars": _jars(options, submit)}
    )
    return [*argv, str(RESCALE), *job_arguments(verb, folder)]


def _jars(options: SubmitOptions, submit: Submit) -> list[str]:
    """Return a pipeline's own jars, and those of the connectors that it names."""
    for name in submit.connectors:
        if name not in options.connectors:
            remedy = f"Run ./millrace setup {name}."
            raise MillraceError("submit.connectors", name, "a connector with installed jars", remedy)
    return [*submit.jars, *(str(jar) for name in submit.connectors for jar in options.connectors[name])]


def _settings(merged: Mapping[str, str], lists: Mapping[str, Sequence[str]]) -> list[str]:
    """Return settings as arguments; list options include the values of the settings that they replace."""
    kept = {key: value for key, value in merged.items() if key not in LISTS.values()}
    words = conf_words(kept)
    for option, key in LISTS.items():
        values = [value.strip() for value in merged.get(key, "").split(",") if value.strip()]
        values = [*lists.get(option, ()), *(value for value in values if value not in lists.get(option, ()))]
        words += (option, ",".join(values)) if values else ()
    return words


def _secret(name: str, source: str, secret_of: SecretOf | None) -> str:
    key = f"submit.secrets.{name}"
    if not source.startswith(FROM_AIRFLOW):
        value = _content(key, Path(source).expanduser())
    elif secret_of is None:
        remedy = "The runner and shell commands cannot read Airflow's secrets: name a file with mode 0600."
        raise MillraceError(key, source, "a file, if no Airflow task starts the driver", remedy)
    else:
        value = secret_of(source)
    if not value or "\0" in value:
        raise MillraceError(key, source, "text that is not empty, without NUL", "Write the value to it.")
    return value


def _content(key: str, file: Path) -> str:
    """Return a file's content without the line end that editors add."""
    try:
        open_to_others = file.stat().st_mode & 0o077
        value = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise MillraceError(key, f"{file}: {reason}", "a readable file", "Create it or correct the path.") from None
    if open_to_others:
        raise MillraceError(key, str(file), "a file that only its owner can read", f"Run: chmod 600 {file}")
    return value


def _spawn(argv: Sequence[str], folder: Path, env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return subprocess.Popen(
                argv,
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise MillraceError("spark-submit", argv[0], "an executable program", str(error)) from error


def script_path(app: AppDeployment) -> Path:
    """Return the script's absolute path."""
    return absolute_path(app.script, PACKAGE)


def _on_this_machine(submit: Submit, options: SubmitOptions) -> bool:
    return is_loopback(master_address(submit.master, options.cluster))


def _without_executors(app: AppDeployment) -> AppDeployment:
    return replace(app, executor=None, submit={**app.submit, "master": LOCAL})


def _submit(app: AppDeployment) -> Submit:
    return Submit.model_validate({"master": LOCAL, **app.submit})

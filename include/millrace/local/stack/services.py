"""The services of the local stack: how each is started and how its health is checked."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path

from millrace.atomic_file import write_atomically
from millrace.environment import spark_env
from millrace.environment.home import Home
from millrace.local.stack import spark_cluster
from millrace.local.stack.loopback import HOST, answers, heartbeat, without_proxy
from millrace.local.stack.secrets import ADMIN, Secrets, password_file
from millrace.local.stack.service import Service
from millrace.places import PACKAGE, SOURCES

DATABASE_PATIENCE_S = 60
TASKS_AT_A_TIME = 4
LOCAL_SETTINGS = Path(__file__).with_name("airflow")


def airflow_url(ports: Mapping[str, int]) -> str:
    """Return the address of Airflow's page."""
    return f"http://{HOST}:{ports['airflow']}"


def execution_url(ports: Mapping[str, int]) -> str:
    """Return the address that Airflow's tasks report to."""
    return f"http://{HOST}:{ports['execution']}/execution/"


def mlflow_url(ports: Mapping[str, int]) -> str:
    """Return the address of MLflow's page."""
    return f"http://{HOST}:{ports['mlflow']}"


def client_env(home: Home, secrets: Secrets, ports: Mapping[str, int]) -> dict[str, str]:
    """Return the variables that a client of the stack needs: Airflow's tasks, the console, a user's script."""
    return {
        "MILLRACE_HOME": str(home.root),
        "MLFLOW_TRACKING_URI": mlflow_url(ports),
        "MLFLOW_TRACKING_USERNAME": ADMIN,
        "MLFLOW_TRACKING_PASSWORD": secrets.admin_password,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        spark_env.MASTER_VARIABLE: spark_cluster.master_url(ports),
        # Airflow's and MLflow's clients would ask a company's proxy for 127.0.0.1
        **without_proxy(os.environ),
    }


def airflow_env(home: Home, secrets: Secrets, ports: Mapping[str, int]) -> dict[str, str]:
    """Return Airflow's configuration as environment variables, so no configuration file contains a secret."""
    config = {
        "CORE__DAGS_FOLDER": (PACKAGE / "dags").resolve(),
        "CORE__PLUGINS_FOLDER": (PACKAGE / "plugins").resolve(),
        "CORE__LOAD_EXAMPLES": False,
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": TASKS_AT_A_TIME,
        "CORE__FERNET_KEY": secrets.fernet_key,
        "CORE__EXECUTION_API_SERVER_URL": execution_url(ports),
        "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{ADMIN}:admin",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": home.secrets / "airflow_passwords.json",
        # writers wait for each other; SQLite's default of 5 s is short for a busy machine
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_airflow_database(home)}?timeout={DATABASE_PATIENCE_S}",
        "LOGGING__BASE_LOG_FOLDER": home.logs / "airflow",
        "API__BASE_URL": airflow_url(ports),
        "API__HOST": HOST,
        "API__PORT": ports["airflow"],
        "API__WORKERS": 1,
        "API__EXPOSE_CONFIG": False,
        "API__SECRET_KEY": secrets.api_secret_key,
        "API_AUTH__JWT_SECRET": secrets.jwt_secret,
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 0.5,
        "DAG_PROCESSOR__PARSING_PROCESSES": 1,
        # a new spec's DAGs appear within a minute; parsing more often only costs processor time
        "DAG_PROCESSOR__REFRESH_INTERVAL": 60,
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": 60,
    }
    # Airflow reads its variables through configparser, where a percent sign in a path is special
    airflow = {f"AIRFLOW__{key}": str(value).replace("%", "%%") for key, value in config.items()}
    return {
        **client_env(home, secrets, ports),
        **spark_env.environment(),
        **airflow,
        "AIRFLOW_HOME": str(home.airflow),
        # SparkSubmitOperator's connection: this machine, no cluster
        "AIRFLOW_CONN_SPARK_DEFAULT": "spark://local",
        # fits use only a few points: more threads only wait for each other
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }


def mlflow_env(home: Home, secrets: Secrets) -> dict[str, str]:
    """Return the MLflow server's configuration."""
    return {
        "MLFLOW_AUTH_CONFIG_PATH": str(_mlflow_auth_file(home)),
        "MLFLOW_AUTH_ADMIN_USERNAME": ADMIN,
        "MLFLOW_AUTH_ADMIN_PASSWORD": secrets.admin_password,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.mlflow_secret_key,
        # its job runners would take a gigabyte, and the stack submits no jobs
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PYTHONUNBUFFERED": "1",
    }


def mlflow_stores(home: Home) -> tuple[str, ...]:
    """Return the options for MLflow's database and artifacts."""
    database, artifacts = home.mlflow / "mlflow.db", home.mlflow / "artifacts"
    return f"--backend-store-uri=sqlite:///{database}", f"--artifacts-destination={artifacts}"


def _mlflow_auth_file(home: Home) -> Path:
    return home.secrets / "mlflow_auth.ini"


def _airflow_database(home: Home) -> Path:
    return home.airflow / "airflow.db"


def write_config(home: Home, secrets: Secrets) -> None:
    """Write the files with the users of Airflow, MLflow and Spark, and prepare Airflow's database."""
    spark_cluster.write_config(home, secrets)
    write_atomically(home.secrets / "airflow_passwords.json", json.dumps({ADMIN: secrets.admin_password}))
    users = f"sqlite:///{home.mlflow / 'users.db'}".replace("%", "%%")
    # otherwise every request hashes the password with PBKDF2; only this server can change it
    lines = ["[mlflow]", "default_permission = READ", f"database_uri = {users}", f"admin_username = {ADMIN}"]
    write_atomically(_mlflow_auth_file(home), "\n".join([*lines, "auth_cache_ttl_seconds = 300", ""]))
    with contextlib.closing(sqlite3.connect(_airflow_database(home), timeout=DATABASE_PATIENCE_S)) as database:
        database.execute("PRAGMA journal_mode=WAL")  # stored in the file: readers no longer wait for the writer


def stack_services(home: Home, secrets: Secrets, ports: Mapping[str, int]) -> tuple[Service, ...]:
    """Return the stack's services in the order of the status list; they stop in reverse order."""
    env = airflow_env(home, secrets, ports)
    monitor = f"{airflow_url(ports)}/api/v2/monitor/health"
    airflow = (sys.executable, "-m", "airflow")
    server = (*airflow, "api-server", f"--host={HOST}", "--workers=1")
    # the scheduler forks the tasks, so they need not import what it has imported
    scheduler_env = {**env, "PYTHONPATH": f"{SOURCES}:{LOCAL_SETTINGS}"}
    listening = ("--app-name=basic-auth", f"--host={HOST}", f"--port={ports['mlflow']}", "--workers=1")
    stores = mlflow_stores(home)
    mlflow = (sys.executable, "-m", "mlflow", "server", *listening, *stores)
    upkeep = (sys.executable, "-m", "millrace.local.stack.upkeep")
    migrated, served = ("migrate",), ("api-server",)
    api = (*server, "--apps=core", f"--port={ports['airflow']}")
    # A separate process: Airflow writes its audit log from within its event loop. If a task's report holds the
    # database lock at that moment and needs the same loop to release it, both would wait for a minute.
    execution = (*server, "--apps=execution", f"--port={ports['execution']}")
    scheduler, triggerer = ((*airflow, name, "--skip-serve-logs") for name in ("scheduler", "triggerer"))
    return (
        *spark_cluster.cluster_services(home, secrets, ports),
        Service("migrate", (*airflow, "db", "migrate"), env),
        Service("mlflow", mlflow, mlflow_env(home, secrets), answers(f"{mlflow_url(ports)}/health")),
        Service("api-server", api, env, answers(monitor), migrated),
        Service("execution-api", execution, env, answers(f"{execution_url(ports)}health"), migrated),
        Service("scheduler", scheduler, scheduler_env, heartbeat(monitor, "scheduler"), (*served, "execution-api")),
        Service("dag-processor", (*airflow, "dag-processor"), env, heartbeat(monitor, "dag_processor"), served),
        Service("triggerer", triggerer, env, heartbeat(monitor, "triggerer"), served),
        Service("upkeep", (*upkeep, *stores), {**env, "PYTHONPATH": str(SOURCES)}, lambda _: True, served),
    )


def addresses(home: Home, ports: Mapping[str, int]) -> dict[str, str]:
    """Return the addresses of the pages, the user and the path of the password file."""
    return {
        "airflow": airflow_url(ports),
        "mlflow": mlflow_url(ports),
        "user": ADMIN,
        "password_file": str(password_file(home)),
    }

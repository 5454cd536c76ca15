"""The embedded cluster: a Spark master and a worker on loopback that authenticate each other.

Its cores are nominal: the guards' quota limits what pipelines may use, not the worker. With more cores than the machine
has, tasks that wait for external services run side by side; tasks that compute share the processors.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import jwt

from millrace.atomic_file import write_atomically
from millrace.environment import spark_env
from millrace.environment.home import Home
from millrace.local.stack.loopback import HOST, answers
from millrace.local.stack.secrets import Secrets
from millrace.local.stack.service import Service

CORES = 256
"""More than twice the cores of all pipelines: during a hand-over, old and new driver both have executors."""
MEMORY = "1024g"
HEAP = "256m"
KEPT_WORK_S = 24 * 3600


def master_url(ports: Mapping[str, int]) -> str:
    """Return the address that drivers submit to."""
    return f"spark://{HOST}:{ports['spark']}"


def _properties(home: Home) -> Path:
    return home.secrets / "spark_cluster.conf"


def login_properties(secret: str) -> dict[str, str]:
    """Return the settings with which a driver logs in to the cluster."""
    return {"spark.authenticate": "true", "spark.authenticate.secret": secret}


def cluster_properties(secret: str, recovery: Path) -> dict[str, str]:
    """Return the settings of master and worker: they authenticate to each other, and their pages need a login.

    Args:
        secret: Secret shared by the cluster's parts; at least 64 bytes.
        recovery: Folder where the master keeps what it needs after a restart.
    """
    # key for Spark's own filter: its pages show logs, and Spark has no passwords
    page_key = base64.urlsafe_b64encode(secret.encode()).decode()
    return {
        **login_properties(secret),
        "spark.deploy.recoveryMode": "FILESYSTEM",
        "spark.deploy.recoveryDirectory": str(recovery),
        "spark.deploy.maxExecutorRetries": "-1",
        # no fallback: drivers look only at this port, and the next one may belong to another stack
        "spark.port.maxRetries": "0",
        "spark.master.rest.enabled": "false",
        "spark.ui.filters": "org.apache.spark.ui.JWSFilter",
        "spark.org.apache.spark.ui.JWSFilter.param.secretKey": page_key,
        "spark.ui.killEnabled": "false",
        "spark.worker.cleanup.enabled": "true",
        "spark.worker.cleanup.appDataTtl": str(KEPT_WORK_S),
        "spark.executor.logs.rolling.strategy": "size",
        "spark.executor.logs.rolling.maxSize": "8388608",
        "spark.executor.logs.rolling.maxRetainedFiles": "2",
    }


def properties_file(properties: Mapping[str, str]) -> str:
    """Return the text of a Spark properties file."""
    return "".join(f"{key} {value}\n" for key, value in properties.items())


def write_config(home: Home, secrets: Secrets) -> None:
    """Write the files with which the cluster's parts and drivers log in to each other."""
    cluster = cluster_properties(secrets.spark_secret, home.run / "spark")
    write_atomically(_properties(home), properties_file(cluster))
    write_atomically(spark_env.driver_properties(home), properties_file(login_properties(secrets.spark_secret)))


def cluster_services(home: Home, secrets: Secrets, ports: Mapping[str, int]) -> tuple[Service, ...]:
    """Return the cluster's two services."""
    env = {
        "SPARK_HOME": str(spark_env.spark_home()),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": HEAP,
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.net.preferIPv4Stack=true",
    }
    token = jwt.encode({}, secrets.spark_secret.encode(), "HS512")

    def service(name: str, main: str, page: str, *arguments: str, after: tuple[str, ...] = ()) -> Service:
        argv = (str(spark_env.spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}")
        listening = ("--host", HOST, "--webui-port", str(ports[page]), "--properties-file", str(_properties(home)))
        health = answers(f"http://{HOST}:{ports[page]}/json/", token)
        return Service(name, (*argv, *listening, *arguments), env, health, after)

    offer = ("--cores", str(CORES), "--memory", MEMORY, "--work-dir", str(home.executors))
    return (
        service("spark-master", "master.Master", "spark_master", "--port", str(ports["spark"])),
        service("spark-worker", "worker.Worker", "spark_worker", *offer, master_url(ports), after=("spark-master",)),
    )

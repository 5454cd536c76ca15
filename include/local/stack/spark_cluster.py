"""The embedded cluster: a Spark master and a worker on loopback, whose parts log in to each other.

Its cores are nominal: the quota of the guards bounds what pipelines may hold, not the worker. More of them than the
machine has let tasks that wait for something outside run side by side; tasks that compute share the processors.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import jwt

from include.atomic_file import write_atomically
from include.local.stack import spark_env
from include.local.stack.home import Home
from include.local.stack.loopback import HOST, answers
from include.local.stack.secrets import Secrets
from include.local.stack.service import Service

CORES = 256
"""More than all pipelines together may hold, twice over: a successor gets its executors beside its predecessor's."""
MEMORY = "1024g"
HEAP = "256m"
KEPT_WORK_S = 24 * 3600


def master_url(ports: Mapping[str, int]) -> str:
    """Give the address that drivers submit to."""
    return f"spark://{HOST}:{ports['spark']}"


def _properties(home: Home) -> Path:
    return home.secrets / "spark_cluster.conf"


def write_config(home: Home, secrets: Secrets) -> None:
    """Write the files with which the cluster's parts log in to each other; nobody else reads its pages."""
    # a key of Spark's own filter: its pages show logs, and Spark knows no passwords
    page_key = base64.urlsafe_b64encode(secrets.spark_secret.encode()).decode()
    cluster = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secrets.spark_secret,
        "spark.deploy.recoveryMode": "FILESYSTEM",
        "spark.deploy.recoveryDirectory": str(home.run / "spark"),
        "spark.deploy.maxExecutorRetries": "-1",
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
    driver = {"spark.authenticate": "true", "spark.authenticate.secret": secrets.spark_secret}
    for path, properties in ((_properties(home), cluster), (spark_env.driver_properties(home), driver)):
        write_atomically(path, "".join(f"{key} {value}\n" for key, value in properties.items()))


def cluster_services(home: Home, secrets: Secrets, ports: Mapping[str, int]) -> tuple[Service, ...]:
    """Define the cluster's two services."""
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

    offer = ("--cores", str(CORES), "--memory", MEMORY, "--work-dir", str(home.root / "spark"))
    return (
        service("spark-master", "master.Master", "spark_master", "--port", str(ports["spark"])),
        service("spark-worker", "worker.Worker", "spark_worker", *offer, master_url(ports), after=("spark-master",)),
    )

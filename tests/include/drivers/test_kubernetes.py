"""The executor's pod on Kubernetes, built by Spark itself from a driver's arguments, without a cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace.drivers import submit
from millrace.environment.spark_env import submit_options
from millrace.model.deployment import AppDeployment, ExecutorSize
from millrace.model.spec_sections import Submit
from millrace.pipelines.spec_yaml import parse
from millrace.places import REPO
from millrace.run_folder.arguments import DriverArguments

pytestmark = pytest.mark.spark

PAGE, TEMPLATE = REPO / "docs" / "kubernetes.md", REPO / "docs" / "executor_pod.yaml"


def documented() -> Submit:
    """Return the ``submit`` section from the documentation, with this repository's template."""
    blocks = [text.split("```")[0] for text in PAGE.read_text(encoding="utf-8").split("```yaml\n")[1:]]
    shown = next(parse(block, PAGE.name) for block in blocks if "k8s://" in block)
    shown["submit"]["conf"]["spark.kubernetes.executor.podTemplateFile"] = str(TEMPLATE)
    return Submit.model_validate(shown["submit"])


def scala_object(package: Any, name: str) -> Any:
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def executor_pod(jvm: Any, conf: dict[str, str]) -> Any:
    """Return the pod of an app's first executor."""
    spark = jvm.org.apache.spark
    settings = spark.SparkConf(False)
    for key, value in conf.items():
        settings.set(key, value)
    none, entries = jvm.scala.Option.empty(), scala_object(spark.internal.config, "package")
    profile = scala_object(spark.resource, "ResourceProfile").getOrCreateDefaultProfile(settings)
    security = spark.SecurityManager(settings, none, entries.AUTH_SECRET_FILE())
    kubernetes = spark.deploy.k8s.KubernetesExecutorConf(settings, "app", "1", none, profile.id())
    client = jvm.io.fabric8.kubernetes.client.KubernetesClientBuilder().build()
    built = spark.scheduler.cluster.k8s.KubernetesExecutorBuilder().buildFromFeatures(
        kubernetes, security, client, profile
    )
    written = jvm.io.fabric8.kubernetes.client.utils.Serialization.asJson(built.pod().pod())
    container = jvm.io.fabric8.kubernetes.client.utils.Serialization.asJson(built.pod().container())
    return {**json.loads(written), "container": json.loads(container)}


def test_executors_pod_matches_the_spec_and_its_template(jvm: Any) -> None:
    asked = documented()
    app = AppDeployment("/s.py", (), 4, 1024, 16, asked.model_dump(mode="json"), executor=ExecutorSize(2, 700))
    options = replace(submit_options(), connectors={})
    arguments = DriverArguments("p", "a", 1, 1, 4, 0, Path("/run"), "/lake", 60.0, 120.0, 60.0, Path("/s.py"))
    argv = submit.command(options, app, arguments)
    assert argv[argv.index("--master") + 1] == "k8s://https://api.example:6443"
    conf = dict(argv[i + 1].split("=", 1) for i, word in enumerate(argv) if word == "--conf")
    assert conf["spark.driver.bindAddress"] == "0.0.0.0", "executors reach a driver beyond its own machine"
    found = executor_pod(jvm, {**conf, "spark.driver.port": "7078", "spark.app.name": "p"})
    container, spec = found["container"], found["spec"]
    assert container["image"] == "registry.example/spark-python:4.2.0"
    assert container["resources"]["requests"] == {"cpu": "2", "memory": f"{700 + 384}Mi"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True and spec["automountServiceAccountToken"] is False
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert environment["SPARK_DRIVER_URL"] == "spark://CoarseGrainedScheduler@millrace.streaming.svc:7078"

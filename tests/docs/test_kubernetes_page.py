"""The applications and rights that docs/kubernetes.md shows are those that a driver and Millrace need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from millrace import run
from millrace.model.submit_conf import ELSEWHERE
from millrace.places import REPO
from millrace.runtime.attached_app import NEEDED

FOLDER = REPO / "docs" / "kubernetes"
PAGE = (REPO / "docs" / "kubernetes.md").read_text(encoding="utf-8")
ARGUMENTS = ["--lake", "s3://lake/millrace", "orders", "/opt/app/orders.py"]


def documents(name: str) -> list[Any]:
    return list(YAML(typ="safe").load_all((FOLDER / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("name", "main", "arguments"),
    [("kubeflow.yaml", "mainApplicationFile", "arguments"), ("apache.yaml", "pyFiles", "driverArgs")],
)
def test_application_has_what_an_attached_driver_needs(name: str, main: str, arguments: str) -> None:
    (application,) = documents(name)
    spec = application["spec"]
    assert {key: spec["sparkConf"].get(key) for key in NEEDED} == dict(NEEDED)
    assert spec[main].startswith("local:///") and spec[main].endswith(f"millrace/{Path(run.__file__).name}")
    assert spec[arguments] == ARGUMENTS
    for line in (f"apiVersion: {application['apiVersion']}", f"{main}: {spec[main]}"):
        assert line in PAGE, f"{name} and the page differ"
    assert all(isinstance(value, str) for value in spec["sparkConf"].values())
    assert "spark.master" in ELSEWHERE and "spark.master" not in spec["sparkConf"], "the operator sets it"


def test_role_allows_what_spark_and_millrace_ask_for() -> None:
    account, role, binding = documents("rbac.yaml")
    (rule,) = role["rules"]
    assert {"pods", "configmaps", "services", "persistentvolumeclaims"} == set(rule["resources"])
    assert {"create", "get", "list", "watch", "patch", "delete", "deletecollection"} == set(rule["verbs"])
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == account["metadata"]["name"]
    for name in ("kubeflow.yaml", "apache.yaml"):
        assert account["metadata"]["name"] in (FOLDER / name).read_text(encoding="utf-8")

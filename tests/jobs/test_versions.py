"""An attached script on each version of Spark: telemetry, 1 -> 3 -> 1 executors, placement, an exact result; pods."""

from __future__ import annotations

import pytest

from millrace.runtime.spark_versions import TESTED
from tests.jobs.attaching import CONF, Attached
from tests.jobs.attaching import attached as attached
from tests.jobs.spark_environments import environment
from tests.jobs.standalone import standalone
from tests.kubernetes.cluster import kubernetes_cluster

pytestmark = pytest.mark.versions


@pytest.mark.parametrize("version", TESTED)
def test_attached_script_is_measured_resized_and_placed(attached: Attached, version: str) -> None:
    found = environment(version)
    with standalone(attached.folder, found.spark, found.variables) as master:
        log = attached.follow(found, master, attached.deploy)
    assert attached.heartbeat() is not None
    assert f"Running Spark version {version}" in log
    assert "Traceback" not in log and "could not measure" not in log, log


@pytest.mark.parametrize("version", ["3.5.7"])
def test_pods_of_an_older_version_are_named_while_they_are_pending(attached: Attached, version: str) -> None:
    found = environment(version)
    with kubernetes_cluster(attached.folder / "pods", found.spark, found.python) as cluster:
        cluster.kubelet.node.pods = 2

        def resize(slots: int) -> None:
            attached.deploy(slots)
            if slots > 1:
                waits = lambda: (beat := attached.heartbeat()) and "1 pod is pending" in beat.driver.awaits  # noqa: E731
                attached.until(attached.folder / "driver.log", waits, "a pod that waits for a node")
                cluster.kubelet.node.pods = 99

        log = attached.follow(found, cluster.master, resize, {**CONF, **cluster.conf})
    assert f"Running Spark version {version}" in log

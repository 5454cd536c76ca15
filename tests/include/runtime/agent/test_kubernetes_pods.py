"""Why pods are missing, asked by Spark's own Kubernetes client of an API server."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from millrace.runtime.agent.kubernetes_pods import KubernetesPods, Shortage, Shortages
from tests.jobs.driving import until
from tests.kubernetes.api_server import ApiServer

pytestmark = pytest.mark.spark

PODS = "/api/v1/namespaces/streaming/pods"
LABELS = {"spark-app-selector": "app-1", "spark-role": "executor"}


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer()
    yield server
    server.stop()


@pytest.fixture
def pods(jvm: Any, api: ApiServer) -> Iterator[KubernetesPods]:
    fabric8 = jvm.io.fabric8.kubernetes.client
    config = fabric8.ConfigBuilder(fabric8.Config.empty()).withMasterUrl(api.address)
    config = config.withRequestTimeout(120_000).withConnectionTimeout(120_000).withRequestRetryBackoffLimit(0).build()
    client = fabric8.KubernetesClientBuilder().withConfig(config).build()
    backend = SimpleNamespace(schedulerBackend=lambda: SimpleNamespace(kubernetesClient=lambda: client))
    context = SimpleNamespace(
        applicationId="app-1",
        version="4.2.0",
        getConf=lambda: {"spark.kubernetes.namespace": "streaming"},
        _jvm=jvm,
        _jsc=SimpleNamespace(sc=lambda: backend),
    )
    yield KubernetesPods(SimpleNamespace(sparkContext=context))
    client.close()


def create(api: ApiServer, name: str, **status: Any) -> None:
    container = {"name": "executor", "image": "registry.example/spark"}
    pod = {"metadata": {"name": name, "labels": LABELS}, "spec": {"containers": [container]}}
    httpx.post(api.address + PODS, json=pod).raise_for_status()
    content = {"Content-Type": "application/merge-patch+json"}
    httpx.patch(f"{api.address}{PODS}/{name}/status", json={"status": status}, headers=content).raise_for_status()


def test_pending_pods_are_told_with_the_schedulers_reason(pods: KubernetesPods, api: ApiServer) -> None:
    create(api, "exec-1", phase="Running")
    create(api, "exec-2", phase="Pending")
    assert pods.shortage(1, 2) == Shortage(True, "1 pod is pending.")
    full = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient cpu."}
    create(api, "exec-3", phase="Pending", conditions=[full])
    found = pods.shortage(1, 3)
    assert found.pending
    assert found.sentence.startswith(
        "2 pods are pending: 0/3 nodes are available: 3 Insufficient cpu. Unless new nodes"
    )


def test_image_that_cannot_be_pulled_is_named(pods: KubernetesPods, api: ApiServer) -> None:
    waits = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "registry.example/spark"'}
    create(api, "exec-1", phase="Pending", containerStatuses=[{"name": "executor", "state": {"waiting": waits}}])
    told = pods.shortage(0, 1).sentence
    assert "Back-off pulling image" in told and "Correct spark.kubernetes.container.image" in told


def test_pod_that_runs_and_has_not_registered_is_on_its_way(pods: KubernetesPods, api: ApiServer) -> None:
    create(api, "exec-1", phase="Running")
    assert pods.shortage(0, 1) == Shortage(True, "")
    assert pods.shortage(1, 2) == Shortage(True, ""), "nothing refuses another one"


def test_quota_and_missing_permission_are_refusals_with_a_remedy(pods: KubernetesPods, api: ApiServer) -> None:
    assert not pods.shortage(0, 1).pending, "Spark has not even made one"
    create(api, "exec-1", phase="Running")
    create(api, "exec-0", phase="Failed")
    api.faults.pods = 2
    found = pods.shortage(1, 2)
    assert not found.pending
    assert "1 of 2 pods exist" in found.sentence and "exceeded quota" in found.sentence
    assert found.sentence.endswith("Raise the ResourceQuota of the namespace, or lower slots.max.")
    api.faults.forbidden = {"create"}
    found = pods.shortage(1, 2)
    assert not found.pending and 'cannot create resource "pods"' in found.sentence
    assert found.sentence.endswith("Grant the driver's service account the Role in docs/kubernetes.md.")
    assert len(httpx.get(api.address + PODS).json()["items"]) == 2, "a dry run makes no pod"


def test_server_that_does_not_tell_leaves_executors_pending(pods: KubernetesPods, api: ApiServer) -> None:
    api.faults.forbidden = {"list"}
    found = pods.shortage(1, 2)
    assert found.pending and 'cannot list resource "pods"' in found.sentence and "Role" in found.sentence
    api.stop()
    found = pods.shortage(1, 2)
    assert found.pending and found.sentence.startswith("the Kubernetes API server does not answer (")
    api.start()


def test_looks_do_not_wait_for_the_server(pods: KubernetesPods, api: ApiServer) -> None:
    create(api, "exec-1", phase="Pending")
    looks = Shortages(pods)
    assert looks.look(0, 1) == Shortage(True)
    until(lambda: looks.look(0, 1).sentence == "1 pod is pending.", "the answer of the first look")
    assert looks.look(0, 2) == Shortage(True), "an answer to another question"

"""The test API server answers as a real one does, as far as Spark and a kubelet use it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.kubernetes.api_server import ApiServer

PODS = "/api/v1/namespaces/streaming/pods"
MERGE = {"Content-Type": "application/strategic-merge-patch+json"}


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer()
    yield server
    server.stop()


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "executor"}]}}


def names(answer: httpx.Response) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json()["items"]]


def test_objects_are_selected_by_labels_and_fields(api: ApiServer) -> None:
    with httpx.Client(base_url=api.address) as client:
        for name, labels in (("a", {"app": "x", "role": "executor"}), ("b", {"app": "x"}), ("c", {"app": "y"})):
            assert client.post(PODS, json=pod(name, **labels)).status_code == 201
        assert client.post(PODS, json=pod("a")).json()["reason"] == "AlreadyExists"
        client.patch(f"{PODS}/b/status", json={"status": {"phase": "Running"}}, headers=MERGE)
        found = {
            selector: names(client.get(PODS, params={"labelSelector": selector}))
            for selector in ("app=x", "app in (x,y),!role", "app notin (y)", "role!=executor,app=x", "role")
        }
        assert list(found.values()) == [["a", "b"], ["b", "c"], ["a", "b"], ["b"], ["a"]], found
        assert names(client.get(PODS, params={"fieldSelector": "status.phase=Running"})) == ["b"]
        client.request("DELETE", PODS, params={"labelSelector": "app=x", "fieldSelector": "status.phase=Pending"})
        assert names(client.get("/api/v1/pods")) == ["b", "c"]
        assert client.get(f"{PODS}/a").json()["code"] == 404


def test_watch_starts_after_a_version_and_ends_when_told(api: ApiServer) -> None:
    with httpx.Client(base_url=api.address, timeout=60.0) as client:
        client.post(PODS, json=pod("a", app="x"))
        version = client.get(PODS).json()["metadata"]["resourceVersion"]
        client.post(PODS, json=pod("b", app="y"))
        client.post(PODS, json=pod("c", app="x"))
        client.patch(f"{PODS}/c", json={"metadata": {"labels": {"app": None}}}, headers=MERGE)
        params = {"watch": "true", "resourceVersion": version, "labelSelector": "app=x"}
        events = []
        with client.stream("GET", PODS, params=params) as watch:
            for line in watch.iter_lines():
                event = json.loads(line)
                events.append((event["type"], event["object"]["metadata"]["name"]))
                if len(events) == 2:
                    api.close_watches()
        assert events == [("ADDED", "c"), ("DELETED", "c")]


def test_pod_on_a_node_is_deleted_by_its_kubelet(api: ApiServer) -> None:
    with httpx.Client(base_url=api.address) as client:
        for name in ("bound", "free"):
            client.post(PODS, json=pod(name))
        client.post(f"{PODS}/bound/binding", json={"target": {"name": "node-1"}})
        for name in ("bound", "free"):
            client.delete(f"{PODS}/{name}")
        assert names(client.get(PODS)) == ["bound"]
        assert client.get(f"{PODS}/bound").json()["metadata"]["deletionGracePeriodSeconds"] == 30
        client.request("DELETE", f"{PODS}/bound", json={"gracePeriodSeconds": 0})
        assert names(client.get(PODS)) == []


def test_refusals_have_the_words_of_the_real_server_and_a_dry_run_stores_nothing(api: ApiServer) -> None:
    with httpx.Client(base_url=api.address) as client:
        assert client.post(PODS, json=pod("a"), params={"dryRun": "All"}).status_code == 201
        assert names(client.get(PODS)) == []
        api.faults.pods = 0
        refused = client.post(PODS, json=pod("a"), params={"dryRun": "All"})
        assert (refused.status_code, refused.json()["reason"]) == (403, "Forbidden")
        assert 'pods "a" is forbidden: exceeded quota' in refused.json()["message"]
        api.faults.forbidden = {"list"}
        assert 'cannot list resource "pods" in API group ""' in client.get(PODS).json()["message"]
        assert client.get(PODS, headers={"User-Agent": "kubelet"}).status_code == 200


def test_objects_outlive_an_outage_on_the_same_port(api: ApiServer) -> None:
    address = api.address
    httpx.post(address + PODS, json=pod("a"))
    api.stop()
    with pytest.raises(httpx.TransportError):
        httpx.get(address + PODS)
    api.start()
    assert api.address == address and names(httpx.get(address + PODS)) == ["a"]

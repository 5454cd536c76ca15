import re

import pytest

from millrace.model.master import PATTERN, addresses, is_loopback


@pytest.mark.parametrize(
    ("master", "reached_at"),
    [
        ("local", []),
        ("yarn", []),
        ("spark://a.example:7077", [("a.example", 7077)]),
        ("spark://a:7077,b:7078", [("a", 7077), ("b", 7078)]),
        ("spark://[2001:db8::1]:7077,[::1]:7078", [("2001:db8::1", 7077), ("::1", 7078)]),
        ("k8s://https://api.example:6443", [("api.example", 6443)]),
        ("k8s://api.example", [("api.example", 443)]),
        ("k8s://https://api.example/cluster/1", [("api.example", 443)]),
    ],
)
def test_addresses_are_those_that_a_driver_connects_to(master: str, reached_at: list[tuple[str, int]]) -> None:
    assert re.match(PATTERN, master)
    assert list(addresses(master)) == reached_at


@pytest.mark.parametrize("master", ["local", "spark://127.0.0.1:7077", "spark://localhost:1,[::1]:2"])
def test_master_reachable_only_from_this_machine_is_loopback(master: str) -> None:
    assert is_loopback(master)


@pytest.mark.parametrize(
    "master",
    [
        "yarn",
        "spark://a:7077",
        "spark://127.0.0.1:7077,a:7077",
        "k8s://127.0.0.1.example",
        # kind and minikube: pods have a network and files of their own
        "k8s://https://127.0.0.1:6443",
        "k8s://http://localhost:8001",
    ],
)
def test_master_reachable_by_others_is_not_loopback(master: str) -> None:
    assert not is_loopback(master)


@pytest.mark.parametrize("master", ["", "mesos", "spark://a", "spark://a:7077,", "spark://::1:7077", "local; rm -rf /"])
def test_other_text_is_not_a_master(master: str) -> None:
    assert not re.match(PATTERN, master)

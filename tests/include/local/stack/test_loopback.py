"""Ports: the usual ones if they are free."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest
from requests.utils import get_environ_proxies

from millrace.environment.home import Home
from millrace.local.stack import loopback
from millrace.local.stack.secrets import Secrets, generate
from millrace.local.stack.services import client_env


def test_choose_when_the_usual_port_is_free_then_takes_it() -> None:
    usual = loopback.any_free()
    assert loopback.choose({"service": usual}) == {"service": usual}


def test_choose_when_the_usual_port_is_taken_then_takes_another() -> None:
    with socket.socket() as taken:
        taken.bind((loopback.HOST, 0))
        taken.listen()
        usual = taken.getsockname()[1]
        chosen = loopback.choose({"service": usual})["service"]
        assert chosen != usual
        assert loopback.is_free(chosen)


def test_choose_avoids_a_port_taken_on_all_addresses() -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        usual = taken.getsockname()[1]
        assert loopback.choose({"service": usual})["service"] != usual


def test_choose_when_two_services_want_one_port_then_they_differ() -> None:
    usual = loopback.any_free()
    chosen = loopback.choose({"one": usual, "other": usual})
    assert len(set(chosen.values())) == 2


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_services_reach_each_other_past_a_companys_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv(name, "git.example")
    secrets = Secrets(**generate())
    for variable, value in client_env(Home(tmp_path), secrets, loopback.USUAL).items():
        monkeypatch.setenv(variable, value)
    assert get_environ_proxies("http://127.0.0.1:5000") == get_environ_proxies("http://git.example") == {}
    assert get_environ_proxies("http://pypi.example")
    with httpx.Client() as client:
        assert client._transport_for_url(httpx.URL("http://127.0.0.1:8081")) is client._transport
    assert loopback.without_proxy({"NO_PROXY": "*"})["no_proxy"] == "*"

"""Ports: the usual ones if they are free."""

from __future__ import annotations

import socket

from millrace.local.stack import loopback


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

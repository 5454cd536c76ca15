"""Ports: the usual ones where they are free."""

from __future__ import annotations

import socket

from include.local.stack import ports


def test_choose_when_the_usual_port_is_free_then_takes_it() -> None:
    usual = ports.any_free()
    assert ports.choose({"service": usual}) == {"service": usual}


def test_choose_when_the_usual_port_is_taken_then_takes_another() -> None:
    with socket.socket() as taken:
        taken.bind((ports.HOST, 0))
        taken.listen()
        usual = taken.getsockname()[1]
        chosen = ports.choose({"service": usual})["service"]
        assert chosen != usual
        assert ports.is_free(chosen)


def test_choose_avoids_a_port_taken_on_all_addresses() -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        usual = taken.getsockname()[1]
        assert ports.choose({"service": usual})["service"] != usual


def test_choose_when_two_services_want_one_port_then_they_differ() -> None:
    usual = ports.any_free()
    chosen = ports.choose({"one": usual, "other": usual})
    assert len(set(chosen.values())) == 2

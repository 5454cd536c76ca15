"""When to try again, and when to stop trying."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.contracts.deployment import AppDeployment, Deployment
from include.control import backoff
from include.control.backoff import LONGEST_DELAY_S, AppTroubles, fingerprint

NOW = datetime(2013, 1, 1, tzinfo=UTC)
APP = AppDeployment("s.py", (), 1, 1024, 8)


def _version(number: int, author: str = "person") -> Deployment:
    return Deployment("p", number, True, {"a": APP}, author)


def test_may_start_when_nothing_went_wrong_then_at_once() -> None:
    assert AppTroubles().may_start("c", _version(1), NOW)


@given(st.integers(1, 200))
def test_delay_when_deaths_add_up_then_grows_to_its_bound_and_never_opens_the_circuit(deaths: int) -> None:
    troubles, delays = AppTroubles(), []
    for _ in range(deaths):
        troubles = troubles.died("c", 1, NOW)
        delays.append(troubles.contents["c"].delay_s)
    assert delays == sorted(delays) and delays[0] == 0 and delays[-1] <= LONGEST_DELAY_S
    assert troubles.may_start("c", _version(1), NOW + timedelta(seconds=LONGEST_DELAY_S))


def test_may_start_when_a_content_failed_once_then_after_the_delay_and_other_contents_at_once() -> None:
    troubles = AppTroubles().failed("c", 1, "ValueError: x", NOW)
    assert not troubles.may_start("c", _version(1), NOW + timedelta(seconds=9))
    assert troubles.may_start("c", _version(1), NOW + timedelta(seconds=10))
    assert troubles.may_start("other", _version(1), NOW)


@pytest.mark.parametrize(("author", "allowed"), [("person", True), ("decision", True), ("reconciler", False)])
def test_may_start_when_the_circuit_is_open_then_only_a_new_version_of_somebody_else(author, allowed) -> None:
    troubles = AppTroubles().failed("c", 1, "x", NOW).failed("c", 1, "x", NOW)
    later = NOW + timedelta(days=9)
    assert not troubles.may_start("c", _version(1, author), later)
    assert troubles.may_start("c", _version(2, author), later) is allowed
    assert not troubles.failed("c", 2, "x", later).may_start("c", _version(2, author), later + timedelta(days=9))


def test_steady_when_a_content_served_long_enough_then_is_forgiven() -> None:
    troubles = AppTroubles().failed("c", 1, "x", NOW).failed("d", 1, "y", NOW).steady("c")
    assert set(troubles.contents) == {"d"}


def test_contents_when_very_many_fail_then_the_newest_are_kept() -> None:
    troubles = AppTroubles()
    for n in range(50):
        troubles = troubles.failed(str(n), n, "x", NOW + timedelta(seconds=n)).settle(n)
    assert set(troubles.contents) == {str(n) for n in range(30, 50)}
    assert max(troubles.settled) == 49 and len(troubles.settled) <= 40


def test_state_when_saved_and_loaded_then_is_the_same_and_damage_is_no_trouble(tmp_path: Path) -> None:
    troubles = AppTroubles().failed("c", 1, "ü\n", NOW).died("d", 2, NOW).settle(1, 5)
    backoff.save(tmp_path, troubles)
    assert backoff.load(tmp_path) == troubles
    for text in ("", "[]", "{", '{"contents": 3}'):
        (tmp_path / backoff.FILE).write_text(text)
        assert backoff.load(tmp_path) == AppTroubles()


def test_fingerprint_when_anything_of_the_content_differs_then_differs() -> None:
    others = [
        AppDeployment("t.py", (), 1, 1024, 8),
        AppDeployment("s.py", ("",), 1, 1024, 8),
        AppDeployment("s.py", (), 2, 1024, 8),
        AppDeployment("s.py", (), 1, 2048, 8),
        AppDeployment("s.py", (), 1, 1024, 8, {"master": "local"}),
    ]
    assert len({fingerprint(app) for app in [APP, *others]}) == 6
    assert fingerprint(AppDeployment("s.py", (), 1, 1024, 8)) == fingerprint(APP)

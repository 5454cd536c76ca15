"""When to try again, and when to stop trying."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.drivers import failure_history
from include.drivers.failure_history import LONGEST_DELAY_S, FailureHistory, fingerprint
from include.model.deployment import AppDeployment, Deployment

NOW = datetime(2013, 1, 1, tzinfo=UTC)
APP = AppDeployment("s.py", (), 1, 1024, 8)


def _version(number: int, author: str = "person") -> Deployment:
    return Deployment("p", number, True, {"a": APP}, author)


def test_wait_when_nothing_went_wrong_then_at_once() -> None:
    assert FailureHistory().wait_s("c", _version(1), NOW) == 0


@given(st.integers(1, 200))
def test_delay_when_deaths_add_up_then_grows_to_its_bound_and_never_opens_the_circuit(deaths: int) -> None:
    troubles, delays = FailureHistory(), []
    for _ in range(deaths):
        troubles = troubles.died("c", 1, NOW)
        delays.append(troubles.contents["c"].delay_s)
    assert delays == sorted(delays) and delays[0] == 0 and delays[-1] <= LONGEST_DELAY_S
    assert troubles.wait_s("c", _version(1), NOW + timedelta(seconds=LONGEST_DELAY_S)) == 0


def test_wait_when_a_content_failed_once_then_after_the_delay_and_other_contents_at_once() -> None:
    troubles = FailureHistory().failed("c", 1, "ValueError: x", NOW)
    assert troubles.wait_s("c", _version(1), NOW + timedelta(seconds=9)) == 1
    assert troubles.wait_s("c", _version(1), NOW + timedelta(seconds=10)) == 0
    assert troubles.wait_s("other", _version(1), NOW) == 0


def test_wait_when_the_clock_was_set_back_then_nobody_waits_for_it_to_catch_up() -> None:
    troubles = FailureHistory().failed("c", 1, "ValueError: x", NOW)
    assert troubles.wait_s("c", _version(1), NOW - timedelta(hours=1)) == 0


@pytest.mark.parametrize(("author", "wait_s"), [("person", 0), ("decision", 0), ("reconciler", 300)])
def test_wait_when_the_circuit_is_open_then_a_new_version_of_somebody_else_is_tried_at_once(author, wait_s) -> None:
    troubles = FailureHistory().failed("c", 1, "x", NOW).failed("c", 1, "x", NOW)
    assert troubles.wait_s("c", _version(1, author), NOW) == 300
    assert troubles.wait_s("c", _version(2, author), NOW) == wait_s
    assert troubles.failed("c", 2, "x", NOW).wait_s("c", _version(2, author), NOW) == 900


@given(st.integers(2, 100))
def test_delay_when_the_circuit_is_open_then_grows_to_an_hour_and_never_beyond(failures: int) -> None:
    troubles = FailureHistory()
    for _ in range(failures):
        troubles = troubles.failed("c", 1, "x", NOW)
    assert troubles.contents["c"].delay_s == {2: 300, 3: 900}.get(failures, 3600)


def test_forgive_others_when_the_old_content_fails_too_then_only_its_own_troubles_count() -> None:
    troubles = FailureHistory().failed("new", 2, "x", NOW).failed("old", 3, "x", NOW)
    assert set(troubles.forgive_others("old").contents) == {"old"}


def test_steady_when_a_content_served_long_enough_then_is_forgiven() -> None:
    troubles = FailureHistory().failed("c", 1, "x", NOW).failed("d", 1, "y", NOW).steady("c")
    assert set(troubles.contents) == {"d"}


def test_contents_when_very_many_fail_then_the_newest_are_kept() -> None:
    troubles = FailureHistory()
    for n in range(50):
        troubles = troubles.failed(str(n), n, "x", NOW + timedelta(seconds=n)).settle(n)
    assert set(troubles.contents) == {str(n) for n in range(30, 50)}
    assert max(troubles.settled) == 49 and len(troubles.settled) <= 40


def test_state_when_saved_and_loaded_then_is_the_same_and_damage_is_no_trouble(tmp_path: Path) -> None:
    troubles = FailureHistory().failed("c", 1, "ü\n", NOW).died("d", 2, NOW).settle(1, 5)
    failure_history.save(tmp_path, troubles)
    assert failure_history.load(tmp_path) == troubles
    for text in ("", "[]", "{", '{"contents": 3}'):
        (tmp_path / failure_history.FILE).write_text(text)
        assert failure_history.load(tmp_path) == FailureHistory()


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

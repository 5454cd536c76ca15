"""When to retry, and when to stop retrying."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.drivers import failure_history
from millrace.drivers.failure_history import LONGEST_DELAY_S, MOST_RESTARTS, FailureHistory, fingerprint
from millrace.model.deployment import AppDeployment, Deployment

NOW = datetime(2013, 1, 1, tzinfo=UTC)
APP = AppDeployment("s.py", (), 1, 1024, 8)


def _version(number: int, author: str = "person") -> Deployment:
    return Deployment("p", number, True, {"a": APP}, author)


def test_wait_when_nothing_went_wrong_then_is_zero() -> None:
    assert FailureHistory().wait_s("c", _version(1), NOW) == 0


@given(st.integers(1, 200))
def test_delay_after_deaths_grows_to_its_bound(deaths: int) -> None:
    history, delays = FailureHistory(), []
    for _ in range(deaths):
        history = history.died("c", 1, NOW)
        delays.append(history.contents["c"].delay_s)
    assert delays == sorted(delays) and delays[0] == 0 and delays[-1] <= LONGEST_DELAY_S
    assert history.wait_s("c", _version(1), NOW + timedelta(seconds=LONGEST_DELAY_S)) == 0


def test_wait_after_one_failure_applies_only_to_that_content() -> None:
    history = FailureHistory().failed("c", 1, "ValueError: x", NOW)
    assert history.wait_s("c", _version(1), NOW + timedelta(seconds=9)) == 1
    assert history.wait_s("c", _version(1), NOW + timedelta(seconds=10)) == 0
    assert history.wait_s("other", _version(1), NOW) == 0


def test_wait_is_over_if_the_clock_was_set_back() -> None:
    history = FailureHistory().failed("c", 1, "ValueError: x", NOW)
    assert history.wait_s("c", _version(1), NOW - timedelta(hours=1)) == 0


@pytest.mark.parametrize(("author", "wait_s"), [("person", 0), ("decision", 0), ("reconciler", 60)])
def test_wait_is_over_for_a_new_version_with_another_author(author, wait_s) -> None:
    history = FailureHistory().failed("c", 1, "x", NOW).failed("c", 1, "x", NOW)
    assert history.wait_s("c", _version(1, author), NOW) == 60
    assert history.wait_s("c", _version(2, author), NOW) == wait_s
    assert history.wait_s("c", _version(2, author), NOW, elsewhere=True) == 60
    assert history.failed("c", 2, "x", NOW).wait_s("c", _version(2, author), NOW) == 300


@given(st.integers(2, 100))
def test_delay_of_an_open_circuit_grows_to_an_hour(failures: int) -> None:
    history = FailureHistory()
    for _ in range(failures):
        history = history.failed("c", 1, "x", NOW)
    assert history.contents["c"].delay_s == {2: 60, 3: 300, 4: 900}.get(failures, 3600)


def test_forgive_others_keeps_only_the_contents_own_failures() -> None:
    history = FailureHistory().failed("new", 2, "x", NOW).failed("old", 3, "x", NOW)
    assert set(history.forgive_others("old").contents) == {"old"}


def test_steady_when_a_content_served_long_enough_then_is_forgiven() -> None:
    history = FailureHistory().failed("c", 1, "x", NOW).failed("d", 1, "y", NOW).steady("c")
    assert set(history.contents) == {"d"}


def test_contents_when_very_many_fail_then_only_the_newest_are_kept() -> None:
    history = FailureHistory()
    for n in range(50):
        history = history.failed(str(n), n, "x", NOW + timedelta(seconds=n)).settle(n)
    assert set(history.contents) == {str(n) for n in range(30, 50)}
    assert max(history.settled) == 49 and len(history.settled) <= 40


def test_history_is_loaded_as_saved_and_is_empty_if_damaged(tmp_path: Path) -> None:
    history = FailureHistory().failed("c", 1, "ü\n", NOW).died("d", 2, NOW).settle(1, 5)
    failure_history.save(tmp_path, history)
    assert failure_history.load(tmp_path) == history
    for text in ("", "[]", "{", '{"contents": 3}'):
        (tmp_path / failure_history.FILE).write_text(text)
        assert failure_history.load(tmp_path) == FailureHistory()


def test_fingerprint_when_any_content_differs_then_differs() -> None:
    others = [
        AppDeployment("t.py", (), 1, 1024, 8),
        AppDeployment("s.py", ("",), 1, 1024, 8),
        AppDeployment("s.py", (), 2, 1024, 8),
        AppDeployment("s.py", (), 1, 2048, 8),
        AppDeployment("s.py", (), 1, 1024, 8, {"master": "local"}),
    ]
    assert len({fingerprint(app) for app in [APP, *others]}) == 6
    assert fingerprint(AppDeployment("s.py", (), 1, 1024, 8)) == fingerprint(APP)


SCHEMA = "[DELTA_SCHEMA_CHANGED] Detected schema change"


def test_failure_that_a_restart_fixes_does_not_wait_or_count() -> None:
    history = FailureHistory().failed("c", 1, "x", NOW)
    for _ in range(50):
        history = history.failed("c", 1, SCHEMA, NOW, progressed=True)
        assert history.wait_s("c", _version(1), NOW) == 0 and not history.contents["c"].open
    assert history.contents["c"].failures == 1
    assert history.died("c", 1, NOW).wait_s("c", _version(1), NOW) > 0, "that death is no restart that was asked for"


def test_restarts_without_a_batch_in_between_become_failures() -> None:
    history, waits = FailureHistory(), []
    for _ in range(MOST_RESTARTS + 2):
        history = history.failed("c", 1, SCHEMA, NOW)
        waits.append(history.wait_s("c", _version(1), NOW))
    assert waits == [0.0] * MOST_RESTARTS + [10, 60] and history.contents["c"].open
    assert history.failed("c", 1, SCHEMA, NOW, progressed=True).wait_s("c", _version(1), NOW) == 0

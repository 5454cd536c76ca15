"""Which failures count against a content, and which had another cause."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from millrace.control.change_results import failed_changes
from millrace.model.decision import Outcome, Reconfiguration

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


def change(minute: int, before: int | None, after: int, outcome: Outcome) -> Reconfiguration:
    at = NOON + timedelta(minutes=minute)
    return Reconfiguration("p", "p", None, "T2", before, after, after, at, at, None, outcome)


def test_failed_changes_when_nothing_happened_then_are_empty() -> None:
    assert failed_changes([]) == []


def test_failed_changes_include_a_content_that_was_rolled_back() -> None:
    failed = change(1, 1, 2, Outcome.ROLLED_BACK)
    assert failed_changes([change(2, 1, 3, Outcome.READY), failed, change(0, None, 1, Outcome.READY)]) == [failed]


def test_failed_changes_exclude_a_content_if_the_old_one_failed_too() -> None:
    assert failed_changes([change(2, 1, 3, Outcome.FAILED), change(1, 1, 2, Outcome.ROLLED_BACK)]) == [
        change(2, 1, 3, Outcome.FAILED)
    ]


def test_failed_changes_exclude_a_driver_that_failed_later() -> None:
    served = change(1, 2, 2, Outcome.CIRCUIT_OPEN)
    assert failed_changes([served, change(0, 1, 2, Outcome.READY)]) == []


def test_failed_changes_include_each_failure_of_a_version() -> None:
    again, first = change(2, 1, 2, Outcome.CIRCUIT_OPEN), change(1, 1, 2, Outcome.FAILED)
    assert failed_changes([again, first]) == [again, first]


def test_failed_changes_include_a_content_after_which_another_app_failed() -> None:
    failed, other = change(1, 1, 2, Outcome.ROLLED_BACK), replace(change(2, 3, 3, Outcome.FAILED), app="other")
    assert failed_changes([other, failed]) == [failed]
    own = change(3, 3, 3, Outcome.FAILED)
    assert failed_changes([own, other, failed]) == []

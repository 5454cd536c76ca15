from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from millrace.model.codec import from_json, to_json
from millrace.model.contingency import Contingency, ContingencyPlan, describe
from millrace.model.deployment import AppDeployment, Change, Deployment
from millrace.model.quiet_hours import quiet_span

LINES = (Contingency("p", 4, 40.0, 2.0), Contingency("p", 8, 75.04, 2.0))
PLAN = ContingencyPlan("d1", LINES, 20, ("22:00-06:00",))


def test_plan_survives_the_lake_and_is_dropped_with_other_slots() -> None:
    deployment = Deployment("p", 1, True, {"p": AppDeployment("p.py", (), 2, 1024, 8)}, contingencies=PLAN)
    assert from_json(Deployment, to_json(deployment)).contingencies == PLAN
    assert deployment.with_changes(()).contingencies == PLAN
    assert deployment.with_changes((Change("p", "slots", 2, 4),)).contingencies is None


def test_deployment_of_an_earlier_release_has_no_plan() -> None:
    deployment = Deployment("p", 1, True, {"p": AppDeployment("p.py", (), 2, 1024, 8)})
    text = to_json(deployment).replace('"contingencies":null,', "")
    assert "contingencies" not in text and from_json(Deployment, text) == deployment


@pytest.mark.parametrize(
    ("other", "news"),
    [
        (PLAN, False),
        (replace(PLAN, decision_id="d2"), False),
        (replace(PLAN, lines=(replace(LINES[0], above_rows_per_s=44.0), LINES[1])), False),
        (replace(PLAN, lines=(replace(LINES[0], above_rows_per_s=60.0), LINES[1])), True),
        (replace(PLAN, lines=(replace(LINES[0], slots=6), LINES[1])), False),
        (replace(PLAN, lines=(LINES[0], replace(LINES[1], slots=6))), True),
        (replace(PLAN, lines=(*LINES, Contingency("p", 4, None, 9.0, "why"))), True),
        (replace(PLAN, lines=()), True),
        (replace(PLAN, lines=(replace(LINES[0], above_rows_per_s=None, for_s=22.0), LINES[1])), True),
        (replace(PLAN, lines=LINES[:1]), True),
        (replace(PLAN, max_total_slots=None), True),
        (replace(PLAN, quiet_hours=()), True),
        (None, True),
    ],
)
def test_plan_is_renewed_only_if_it_changed(other: ContingencyPlan | None, news: bool) -> None:
    assert PLAN.renews(other) is news


def test_lines_are_one_sentence_for_a_person() -> None:
    assert describe(LINES) == "p gets 4 slots if more than 40 rows/s arrive, 8 slots if more than 75 rows/s arrive."
    overdue = describe((Contingency("p", 4, None, 22.4, "nothing is known"),))
    assert overdue == "p gets 4 slots if a batch runs for more than 22 s (nothing is known)."
    assert describe(()) == ""


def test_quiet_hours_may_pass_midnight() -> None:
    def at(hour: int, minute: int = 0) -> str | None:
        return quiet_span(datetime(2026, 1, 1, hour, minute, tzinfo=UTC), ("12:00-13:00", "22:00-06:00"))

    assert at(23) == at(5, 59) == "22:00-06:00" and at(12) == "12:00-13:00"
    assert at(6) is at(13) is at(21, 59) is None

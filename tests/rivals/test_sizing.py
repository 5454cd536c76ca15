from __future__ import annotations

import pytest

from millrace.model.objective import Bounds
from millrace.optimizers.conformance.builders import dag_signals, deployment, edges, operator, source
from millrace.optimizers.conttune.job_graph import Job, build_job
from millrace.optimizers.conttune.messages import Reason
from millrace_rivals.messages import RivalReason
from millrace_rivals.sizing import Choice, hold_job, is_worthwhile, size_job

BOUNDS = Bounds(1, 8)


def two(split: int = 4, count: int = 4) -> Job:
    told = [source("lines", 90.0), operator("split", split, 90.0, 100.0), operator("count", count, 90.0, 300.0)]
    seen = dag_signals(told, edges("lines>split split>count", {"lines": 90.0, "split": 90.0}))
    return build_job(seen.apps[0], deployment(seen.apps[0].slots, {"split": split, "count": count}))


def choices(whole: Job, *targets: int, reason: Reason | None = None) -> list[Choice]:
    return [
        Choice(o, target, o.rate, o.ability, reason=reason) for o, target in zip(whole.sizable, targets, strict=True)
    ]


def test_one_large_change_takes_all_changes_along_and_no_others() -> None:
    whole = two(8, 8)
    found = size_job(whole, choices(whole, 7, 2), BOUNDS, 0.5)
    assert [(s.operator.id, s.target, s.reason) for s in found] == [
        ("split", 7, "over_provisioned"),
        ("count", 2, "over_provisioned"),
    ]
    assert [s.operator.id for s in size_job(whole, choices(whole, 8, 2), BOUNDS, 0.5)] == ["count"]


def test_small_changes_are_one_hold_of_the_most_utilised() -> None:
    whole = two(8, 8)
    (found,) = size_job(whole, choices(whole, 7, 7), BOUNDS, 0.5)
    assert (found.operator.id, found.changes, found.reason) == ("split", False, "below_decision_threshold")
    assert "less than 50 %" in found.sentence


def test_decided_when_targets_are_out_of_bounds_then_moves_them_inside() -> None:
    whole = two()
    assert [s.target for s in size_job(whole, choices(whole, 99, -3), BOUNDS)] == [8, 1]
    whole = two(8, 8)
    (found,) = size_job(whole, choices(whole, 99, 8), BOUNDS)
    assert (found.changes, found.reason) == (False, "at_maximum")


def test_decided_when_operators_have_reasons_to_stay_then_reports_each() -> None:
    whole = two()
    found = size_job(whole, choices(whole, 4, 4, reason=Reason.RATE_UNKNOWN), BOUNDS)
    assert [(s.operator.id, s.reason) for s in found] == [("split", "rate_unknown"), ("count", "rate_unknown")]


def test_no_change_is_a_hold_with_the_requested_reason() -> None:
    whole = two()
    (found,) = size_job(whole, choices(whole, 4, 4), BOUNDS, otherwise=RivalReason.NO_HIGHER_LEVEL)
    assert (found.changes, found.reason) == (False, "no_higher_level")


def test_hold_shows_invalid_figures_as_unknown() -> None:
    whole = two()
    unknown = [Choice(o, 4, None, None) for o in whole.sizable]
    assert hold_job(whole, Reason.WELL_PROVISIONED, BOUNDS, unknown).sentence == (
        "? rows/s arrive, and 4 slots can sustain ? rows/s (? % used). No change needed."
    )
    huge = [Choice(o, 4, 1e300, 5e-324) for o in whole.sizable]
    assert hold_job(whole, Reason.WELL_PROVISIONED, BOUNDS, huge).predicted == {"throughput_rows_per_s": 5e-324}


@pytest.mark.parametrize(
    ("now", "new", "worth"),
    [(8, 7, True), (11, 10, True), (12, 11, False), (20, 21, False), (20, 22, True), (4, 4, False)],
)
def test_decision_thr_is_relative_to_the_smaller_in_both_directions(now: int, new: int, worth: bool) -> None:
    assert is_worthwhile({"map": now}, {"map": new}, 0.1) is worth


def test_decision_thr_passed_by_one_operator_includes_all() -> None:
    assert is_worthwhile({"map": 20, "join": 4}, {"map": 21, "join": 6}, 0.1)

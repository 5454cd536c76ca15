from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.deployment import JOIN_FIELDS
from millrace.model.join import JoinSignals
from millrace.model.objective import Bounds
from millrace.model.signals import Signals
from millrace.optimizers.conformance.builders import APP
from millrace.optimizers.esj.workers import start_workers, workers_for
from tests.optimizers.esj.cases import W, deployed, esj, evaluation, follow, measured, wanted


def test_join_when_there_is_none_then_stays_silent_and_keeps_memory() -> None:
    without = replace(deployed(2), join=None)
    told, memory = esj().propose(evaluation(measured(2, 100)), without, {"kept": 1})
    assert (told.changes, told.reason_code, told.sentence, memory) == ((), "no_join", "", {"kept": 1})


def test_join_not_measured_is_silent_and_low_load_starts_over() -> None:
    optimizer = esj(cool_s=10)
    _, memory = follow(optimizer, deployed(6), measured(6, 100))
    told, memory = optimizer.propose(evaluation(None, 1), deployed(6), memory)
    assert (told.changes, told.reason_code, told.sentence) == ((), "join_unmeasured", "")
    assert "join_workers" not in wanted(optimizer.propose(evaluation(measured(6, 100), 2), deployed(6), memory)[0])


def test_join_when_it_fits_then_changes_nothing_and_reports_the_load() -> None:
    told, _ = esj().propose(evaluation(measured(2, 800, block=400)), deployed(2, 400), {})
    assert (told.changes, told.reason_code) == ((), "join_fits")
    assert told.sentence == "Streams offer 40 % of what 2 workers can hold."
    assert told.predicted["join_utilisation_ratio"] == 0.4


# ---- workers


def test_join_with_too_few_workers_starts_those_for_the_expected_rate() -> None:
    told, _ = esj(expected=20.0).propose(evaluation(measured(1, 0)), deployed(1), {})
    assert wanted(told)["join_workers"] == 3
    assert told.reason_code == "join_starts"


def test_high_load_that_lasts_adds_workers_up_to_tau1() -> None:
    told, _ = follow(esj(lasts_s=20), deployed(2), *[measured(2, 1900)] * 3)
    assert ["join_workers" in wanted(t) for t in told] == [False, False, True]
    assert wanted(told[2])["join_workers"] == workers_for(1900, W, 0.4) == 5
    assert told[2].reason_code == "join_overloaded"
    assert told[2].predicted["join_utilisation_ratio"] == pytest.approx(0.38)
    assert told[2].sentence.startswith("Streams offer 95 % of what 2 workers can hold, 5 workers bring that to 38 %")


def test_workers_when_load_was_high_in_between_only_then_stay() -> None:
    evaluations = [measured(2, n) for n in (1900, 1000, 1900, 1000, 1900)]
    told, _ = follow(esj(lasts_s=10, ahead=0), deployed(2), *evaluations)
    assert all("join_workers" not in wanted(t) for t in told)


def test_shedding_below_tau3_adds_workers_by_our_trigger_only() -> None:
    between = [measured(2, 1700, block=200)] * 4
    for trigger, added in (("offered", [False, False, True, True]), ("window", [False] * 4)):
        told, _ = follow(esj(trigger=trigger, lasts_s=0, sheds_s=20), deployed(2, 200), *between)
        assert ["join_workers" in wanted(t) for t in told] == added


def test_load_about_to_be_high_adds_workers_for_the_expected_rate() -> None:
    rising = measured(2, 1400, offered_before=1100)
    ahead = wanted(esj(lasts_s=0, ahead=2).propose(evaluation(rising), deployed(2), {})[0])
    assert ahead["join_workers"] == workers_for(2000, W, 0.4)
    told, _ = esj(ahead=2).propose(evaluation(rising), deployed(2), {})
    assert told.sentence.startswith("Streams will soon offer 100 % of what 2 workers can hold")
    assert "join_workers" not in wanted(esj(lasts_s=0, ahead=0).propose(evaluation(rising), deployed(2), {})[0])


def test_load_hidden_by_shedding_adds_workers_by_our_trigger_only() -> None:
    shedding = measured(2, 4400, window_tuples=(910, 910), shed=0.6)
    for trigger, added in (("offered", True), ("window", False)):
        told, _ = follow(esj(trigger=trigger, lasts_s=10), deployed(2, shed=0.6), *[shedding] * 20)
        assert any("join_workers" in wanted(t) for t in told) is added


def test_fullest_worker_that_stays_full_triggers_the_papers() -> None:
    told, _ = follow(esj(trigger="window", lasts_s=10), deployed(2), *[measured(2, 1000, window_tuples=(960, 40))] * 2)
    assert wanted(told[1])["join_workers"] == workers_for(2 * 960, W, 0.4)
    assert told[1].sentence.startswith("The fullest worker holds 96 % of its capacity")


def test_workers_when_at_the_maximum_then_stay_and_say_so() -> None:
    told, _ = follow(esj({"min": 1, "max": 2}, lasts_s=0), deployed(2), measured(2, 5000))
    assert "join_workers" not in wanted(told[0])
    assert told[0].reason_code == "join_exhausted"


def test_workers_beyond_the_state_partitions_are_removed_and_it_sheds() -> None:
    join = measured(4, 3600, partitions=4)  # 90 % of the capacity of four workers; eight are deployed
    told, _ = follow(esj(), deployed(8), *[join] * 6)
    assert told[-1].reason_code == "join_beyond_bounds"
    assert wanted(told[-1])["join_workers"] == 4 and wanted(told[-1])["shed_ratio"] > 0
    assert "its checkpoint has 4 state partitions, one per worker" in told[-1].sentence
    told, _ = follow(esj(), deployed(4), *[join] * 6)
    assert told[-1].reason_code == "join_exhausted" and "state partitions" in told[-1].sentence
    assert "join_workers" not in wanted(told[-1]) and wanted(told[-1])["shed_ratio"] > 0


def test_workers_when_the_least_allowed_exceed_the_state_partitions_then_it_sheds() -> None:
    join = measured(4, 3600, partitions=4)
    told, _ = follow(esj({"min": 6, "max": 8}), deployed(6), *[join] * 6)
    assert "join_workers" not in wanted(told[-1]) and wanted(told[-1])["shed_ratio"] > 0
    assert told[-1].predicted["join_utilisation_ratio"] == 0.9 and "4 state partitions" in told[-1].sentence


def test_low_load_that_lasts_removes_workers_down_to_the_highest_rate_seen() -> None:
    evaluations = [measured(6, n) for n in (1000, 300, 1100, 200)]
    told, _ = follow(esj(cool_s=30, ahead=0), deployed(6), *evaluations)
    assert ["join_workers" in wanted(t) for t in told] == [False] * 3 + [True]
    assert wanted(told[3])["join_workers"] == workers_for(1100, W, 0.4) == 3
    assert told[3].reason_code == "join_oversized"
    assert "no more than 20 % over the last 30 s: 3 workers bring that to 7 %" in told[3].sentence


def test_workers_when_load_is_low_then_are_never_fewer_than_at_the_start() -> None:
    told, _ = follow(esj(expected=20.0, cool_s=0), deployed(5), measured(5, 0))
    assert wanted(told[0])["join_workers"] == 3


def test_workers_when_bursts_repeat_then_are_not_taken_away_between_them() -> None:
    burst = [measured(5, n) for n in (500, 1200, 500, 500, 500)] * 6
    told, _ = follow(esj(cool_s=60, ahead=0), deployed(5), *burst)
    assert all("join_workers" not in wanted(t) for t in told)


def test_workers_when_a_change_is_not_in_force_yet_then_stay() -> None:
    told, _ = follow(esj(lasts_s=0), deployed(5), measured(2, 1900))
    assert "join_workers" not in wanted(told[0])
    assert told[0].reason_code == "join_changing"
    settling = replace(evaluation(measured(2, 1900)), settling=True)
    assert "join_workers" not in wanted(esj(lasts_s=0).propose(settling, deployed(2), {})[0])


@pytest.mark.parametrize(("m", "inside", "reason"), [(1, 2, "join_starts"), (9, 6, "join_beyond_bounds")])
def test_workers_when_out_of_bounds_then_move_inside(m: int, inside: int, reason: str) -> None:
    told, _ = esj({"min": 2, "max": 6}).propose(evaluation(measured(m, 300 * m)), deployed(m), {})
    assert wanted(told)["join_workers"] == inside
    assert told.reason_code == reason


# ---- slots


@pytest.mark.parametrize(("slots", "most", "wanted_slots"), [(2, 8, 5), (2, 4, 4), (5, 8, None), (4, 3, None)])
def test_slots_when_workers_exceed_them_then_are_raised_within_bounds(
    slots: int, most: int, wanted_slots: int | None
) -> None:
    seen = evaluation(measured(2, 1900), slots=slots, bounds=Bounds(1, most))
    told, _ = esj(lasts_s=0).propose(seen, deployed(2, slots=slots), {})
    assert wanted(told)["join_workers"] == 5
    assert wanted(told).get("slots") == wanted_slots


def test_slots_when_the_app_settles_then_wait_for_it() -> None:
    for settling, expected in ((True, None), (False, 5)):
        seen = replace(evaluation(measured(5, 1000), slots=2), settling=settling)
        assert wanted(esj().propose(seen, deployed(5, slots=2), {})[0]).get("slots") == expected


def test_slots_follow_leaving_workers_but_not_below_their_former_number() -> None:
    optimizer, slots, m = esj(lasts_s=0, cool_s=0, ahead=0, tau0=0.2), 2, 2
    memory: Any = {}
    course = []
    for at, offered in enumerate((1900, 1900, 900, None, 900, 300)):
        told, memory = optimizer.propose(evaluation(measured(m, offered), at, slots), deployed(m, slots=slots), memory)
        m, slots = (int(wanted(told).get(name, old)) for name, old in (("join_workers", m), ("slots", slots)))
        course.append((m, slots))
    assert course == [(5, 5), (5, 5), (3, 3), (3, 3), (3, 3), (1, 2)]


def test_slots_when_bounds_keep_them_below_the_workers_then_says_so() -> None:
    seen = evaluation(measured(2, 1900), slots=2, bounds=Bounds(1, 2))
    assert (
        "slots stay at 2, so no more workers run at once"
        in esj(lasts_s=0).propose(seen, deployed(2, slots=2), {})[0].sentence
    )


# ---- shedding


def test_shed_ratio_follows_the_shed_factor_in_steps() -> None:
    full = measured(2, 1800, window_tuples=(900, 900))
    told, _ = esj().propose(evaluation(full), deployed(2), {})
    assert wanted(told)["shed_ratio"] == 0.55
    assert "55 % of new tuples will be shed" in told.sentence
    quadratic = esj(shedding="quadratic").propose(evaluation(full), deployed(2), {})[0]
    assert wanted(quadratic)["shed_ratio"] == 0.35


def test_shed_ratio_of_ours_is_zero_if_workers_are_added_at_once() -> None:
    seen = evaluation(measured(2, 1900, window_tuples=(950, 950)))
    ours = wanted(esj(lasts_s=0).propose(seen, deployed(2), {})[0])
    assert ours["join_workers"] == 5 and "shed_ratio" not in ours
    papers = wanted(esj(lasts_s=0, trigger="window").propose(seen, deployed(2), {})[0])
    assert papers["join_workers"] == 5 and papers["shed_ratio"] > 0.5


def test_shed_ratio_when_utilisation_wavers_then_stays() -> None:
    for tuples in (1785, 1800, 1815):
        seen = measured(2, 1800, window_tuples=(tuples // 2, tuples // 2), shed=0.55)
        told, _ = esj().propose(evaluation(seen), deployed(2, shed=0.55), {})
        assert "shed_ratio" not in wanted(told)
        assert told.reason_code == "join_sheds"


def test_shed_ratio_when_there_is_room_again_then_is_zero() -> None:
    told, _ = esj().propose(evaluation(measured(2, 1500, shed=0.3)), deployed(2, shed=0.3), {})
    assert wanted(told)["shed_ratio"] == 0
    assert "shedding ends" in told.sentence


def test_shed_ratio_when_workers_settle_then_still_follows() -> None:
    seen = replace(evaluation(measured(2, 2000, window_tuples=(1000, 1000))), settling=True)
    assert wanted(esj().propose(seen, deployed(2), {})[0])["shed_ratio"] == 1.0


# ---- blocks


def test_block_when_another_is_much_better_then_changes_and_then_stays() -> None:
    told, _ = esj().propose(evaluation(measured(2, 800, block=10)), deployed(2, 10), {})
    assert wanted(told) == {"block_size": 400}
    assert "400 tuples per block instead of 10" in told.sentence
    for offered in (700, 900):
        assert wanted(esj().propose(evaluation(measured(2, offered)), deployed(2, 400), {})[0]) == {}


def test_block_when_the_load_disappears_then_stays_for_its_return() -> None:
    for offered in (0, 2, 40):
        assert wanted(esj().propose(evaluation(measured(2, offered, block=400)), deployed(2, 400), {})[0]) == {}


def test_block_when_it_no_longer_fits_then_changes_whatever_the_cost() -> None:
    told, _ = esj().propose(evaluation(measured(2, 1400, block=400)), deployed(2, 400), {})
    assert wanted(told)["block_size"] == 150  # half of the room, as the load may continue to grow


def test_block_fits_the_capacity_of_fewer_workers_during_a_change() -> None:
    coming, _ = esj(lasts_s=0).propose(evaluation(measured(2, 1900)), deployed(2), {})
    assert (wanted(coming)["join_workers"], wanted(coming)["block_size"]) == (5, 25)
    going, _ = esj(cool_s=0, tau0=0.2).propose(evaluation(measured(5, 950, block=60)), deployed(5, 60), {})
    assert (wanted(going)["join_workers"], wanted(going)["block_size"]) == (3, 317)


def test_block_when_literal_then_is_at_least_1() -> None:
    told, _ = esj(block_size="literal").propose(evaluation(measured(2, 2000)), deployed(2), {})
    assert wanted(told)["block_size"] == 1


# ---- missing or wrong input


@pytest.mark.parametrize(
    ("join", "what"),
    [
        (measured(2, None, window_tuples=(100, 100)), "how many tuples were offered"),
        (measured(2, 100, window_tuples=(100, None)), "how many tuples each worker holds"),
        (measured(2, 100, window_tuples=()), "how many tuples each worker holds"),
    ],
)
def test_missing_telemetry_keeps_all_and_low_load_starts_over(join: JoinSignals, what: str) -> None:
    optimizer = esj(cool_s=30)
    low = [measured(6, 100)] * 3
    told, memory = follow(optimizer, deployed(6), *low, replace(join, workers=6))
    assert (told[3].changes, told[3].reason_code) == ((), "join_unmeasured")
    assert what in told[3].sentence
    after, _ = optimizer.propose(evaluation(measured(6, 100), 4), deployed(6), memory)
    assert "join_workers" not in wanted(after)


def test_unknown_earlier_offer_projects_nothing() -> None:
    told, _ = esj(lasts_s=0).propose(evaluation(measured(2, 1800, offered_before=None)), deployed(2), {})
    assert "join_workers" not in wanted(told)


def test_unknown_offer_does_not_stop_the_papers_trigger() -> None:
    join = measured(2, None, window_tuples=(960, 960))
    told, _ = esj(trigger="window", lasts_s=0).propose(evaluation(join), deployed(2), {})
    assert wanted(told)["join_workers"] == 5


@pytest.mark.parametrize(
    "wrong",
    [
        {"offered": -1},
        {"offered": math.nan},
        {"offered_before": -1},
        {"window_tuples": (1, -1)},
        {"workers": 0},
        {"block": 0},
        {"capacity": 0},
        {"shed": 1.5},
        {"shed": math.nan},
        {"period_s": 0.0},
    ],
)
def test_impossible_figure_of_a_join_is_named_and_keeps_all(wrong: dict[str, Any]) -> None:
    told, _ = esj(cool_s=0, lasts_s=0).propose(evaluation(replace(measured(6, 100), **wrong)), deployed(6), {})
    assert (told.changes, told.reason_code) == ((), "bad_signals")
    assert f"join.{next(iter(wrong))}" in told.sentence


def test_app_when_stopped_or_unknown_or_unmeasured_then_all_stays() -> None:
    optimizer, seen = esj(lasts_s=0), evaluation(measured(2, 1900))
    stranger = replace(seen, apps=(replace(seen.apps[0], app="stranger"),))
    for signals, current in (
        (seen, deployed(2, running=False)),
        (stranger, deployed(2)),
        (replace(seen, apps=()), deployed(2)),
    ):
        told, _ = optimizer.propose(signals, current, {})
        assert (told.changes, told.reason_code) == ((), "join_stopped")


# ---- any input

COUNTS = st.none() | st.integers(0, 20_000)


@st.composite
def joins(draw: st.DrawFn) -> tuple[Signals, int]:
    m = draw(st.integers(1, 8))
    join = replace(
        measured(m, None),
        offered=draw(COUNTS),
        offered_before=draw(COUNTS),
        window_tuples=tuple(draw(st.lists(st.none() | st.integers(0, 1200), max_size=10))),
        shed=draw(st.floats(0, 1)),
        block=draw(st.integers(1, 2000)),
        capacity=draw(st.integers(2, 2000)),
        period_s=draw(st.floats(1, 60)),
    )
    slots = draw(st.integers(1, 8))
    seen = evaluation(join, draw(st.integers(0, 5)), slots, Bounds(1, draw(st.integers(1, 8))))
    return replace(seen, settling=draw(st.booleans())), slots


POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "trigger": st.sampled_from(["offered", "window"]),
        "shedding": st.sampled_from(["linear", "quadratic"]),
        "block_size": st.sampled_from(["optimum", "literal"]),
        "lasts_s": st.sampled_from([0, 10]),
        "cool_s": st.sampled_from([0, 10]),
        "tau2": st.floats(0.1, 0.9),
    },
)


@given(joins(), POLICIES, st.integers(1, 8), st.integers(1, 8), st.none() | st.floats(0, 1000))
@settings(deadline=None)
def test_proposal_is_within_bounds_and_says_why(
    case: tuple[Signals, int], options: dict[str, Any], least: int, more: int, expected: float | None
) -> None:
    seen, slots = case
    assert seen.join is not None
    current = deployed(seen.join.workers, seen.join.block, seen.join.shed, slots)
    optimizer = esj({"min": least, "max": least + more}, expected, **options)
    told, memory = optimizer.propose(seen, current, {})
    json.dumps(memory, allow_nan=False)
    found = current.with_changes(told.changes)
    assert found.join is not None
    for change in told.changes:
        assert change.app == APP and change.before == current.value(change) != change.value
        assert change.field in (*JOIN_FIELDS, "slots")
    if found.join.workers != seen.join.workers:
        assert start_workers(optimizer.policy) <= found.join.workers <= least + more
    assert found.join.block >= 1 and 0 <= found.join.shed <= 1
    assert slots <= found.apps[APP].slots <= max(slots, seen.bounds.max_slots)
    assert told.reason_code == told.reason_code.lower() and told.sentence.endswith(".")
    assert "nan" not in told.sentence
    assert all(math.isfinite(value) for value in told.predicted.values())


@given(st.lists(st.integers(0, 7000), min_size=3, max_size=12))
@settings(deadline=None)
def test_workers_never_reverse_within_the_cool_down(course: list[int]) -> None:
    optimizer, m, memory, turns = esj(cool_s=50, lasts_s=0, ahead=0), 1, {}, []
    for at, offered in enumerate(course):
        told, memory = optimizer.propose(evaluation(measured(m, offered), at), deployed(m), memory)
        after = int(wanted(told).get("join_workers", m))
        if after < m:
            assert all(at - before >= 5 for before in turns[-1:])
        if after != m:
            turns.append(at)
        m = after

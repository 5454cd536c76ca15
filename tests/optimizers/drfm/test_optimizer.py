from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.codec import from_json, to_json
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Change
from millrace.optimizers.conformance.builders import deployment
from millrace.optimizers.registry import Role, create
from tests.examples import examples
from tests.optimizers.drfm.stream_counts import advised, counts, histories, look

METHODS = ("horizon", "par", "ari", "ard", "drf", "drfm")


def stored(memory: Memory) -> Memory:
    """As the next evaluation finds it."""
    found: Memory = json.loads(to_json(memory))
    return found


def test_advice_when_nothing_is_new_then_is_silent_and_keeps_its_memory() -> None:
    _, kept = advised(counts({"a": [100, 100]}))
    for told in (None, counts({"a": [100, 100]}), counts({}), counts({"a": []}, first=2)):
        proposal, after = advised(told, kept)
        assert (proposal.reason_code, proposal.sentence, proposal.admission) == ("no_new_profile", "", None)
        assert after is kept


def test_first_advice_admits_every_stream_on_nodes_that_hold_them() -> None:
    proposal, memory = advised(counts({name: [2000] * 4 for name in "abc"}))
    plan = proposal.admission
    assert plan is not None and proposal.reason_code == "streams_to_admit"
    assert (plan.admitted, plan.redirections, plan.split, plan.least_nodes) == (3, 0, 3, 2)
    assert plan.nodes == ("ingest-1", "ingest-2", "ingest-3") and plan.capacity == 1.0
    assert np.array(plan.loads) == pytest.approx(np.full((3, 48), 2000 / 3600), rel=1e-6)
    assert proposal.predicted == {"ingest_nodes": 3.0, "ingest_load_ratio": pytest.approx(2000 / 3600)}
    assert plan.came == pytest.approx([2000 / 3600] * 3)
    assert proposal.sentence == (
        "admit 3 streams on 3 ingest nodes at 1 rows/s each (no plan needs fewer than 2); "
        "nodes at most 56 % full in the next 48 periods; forecast off by 0 % in total, 0 % per stream"
    )
    assert memory["until"] == "2013-01-01T04:00:00+00:00"


def test_advice_when_followed_then_the_next_starts_from_it() -> None:
    _, memory = advised(counts({name: [1500] * 3 for name in "abcd"}))
    proposal, _ = advised(counts({"a": [3400], "b": [1500], "c": [1500], "d": [1500]}, first=3), stored(memory))
    plan = proposal.admission
    assert plan is not None and proposal.reason_code == "streams_to_redirect" and plan.redirections >= 1
    assert "redirect " in proposal.sentence and "admit" not in proposal.sentence
    before = dict(zip(memory["streams"], memory["node"], strict=True))
    assert dict(zip(plan.stream, plan.before, strict=True)) == before
    assert plan.forecast[0] == pytest.approx(1500 / 3600) and plan.came[0] == pytest.approx(3400 / 3600)
    assert plan.total_came == pytest.approx([6000 / 3600, 6000 / 3600, 7900 / 3600])
    assert plan.total_forecast == pytest.approx([6000 / 3600] * 3)
    assert plan.total_error == plan.error == pytest.approx(1900 / 19900)


def test_advice_when_no_stream_has_to_move_then_says_that_streams_stay() -> None:
    _, memory = advised(counts({"a": [1000] * 4, "b": [1000] * 4}))
    proposal, _ = advised(counts({"a": [1200], "b": [800]}, first=4), stored(memory))
    assert proposal.reason_code == "streams_stay" and not proposal.advises and proposal.planned
    assert proposal.sentence.startswith("Streams stay: 2 on 1 ingest node at 1 rows/s each, the fewest possible; ")
    assert proposal.sentence.endswith("forecast off by 0 % in total, 5 % per stream")


def test_advice_when_streams_fall_silent_then_releases_their_nodes() -> None:
    options = {"quiet": 3}
    _, memory = advised(counts({"a": [3000], "b": [3000]}), options=options)
    proposal, memory = advised(counts({"a": [3000] * 2, "b": [0] * 2}, first=1), stored(memory), options=options)
    assert proposal.admission is not None and proposal.admission.stream == ("a", "b")
    proposal, memory = advised(counts({"a": [3000]}, first=3), stored(memory), options=options)
    plan = proposal.admission
    assert plan is not None and (plan.stream, plan.left, plan.split) == (("a",), ("b",), 1)
    assert proposal.reason_code == "nodes_to_release" and len(plan.released) == 1
    assert f"release {plan.released[0]}" in proposal.sentence
    proposal, memory = advised(counts({"a": [0] * 4}, first=4), stored(memory), options=options)
    assert proposal.admission is not None and proposal.admission.stream == ()
    assert "No input stream has rows any more" in proposal.sentence and memory["streams"] == []
    proposal, _ = advised(counts({"a": [50]}, first=8), stored(memory), options=options)
    assert proposal.admission is not None and proposal.admission.admitted == 1


def test_advice_when_a_stream_exceeds_a_node_then_isolates_and_names_it() -> None:
    plan = advised(counts({"big": [9000] * 3, "small": [100] * 3}))[0]
    assert plan.admission is not None and plan.admission.oversized == ("big",)
    assert plan.admission.split == 2
    assert "streams too fast for one node (divide them): big" in plan.sentence


def test_advice_when_costs_are_given_then_sizes_workers_with_headroom() -> None:
    sizing = {"query_s": 2.0, "merge_s": 0.1, "partials": 4.0, "headroom": 0.2}
    proposal, _ = advised(counts({"a": [3600] * 3, "b": [3600] * 3}), capacity=2.0, sizing=sizing)
    plan = proposal.admission
    assert plan is not None and plan.capacity == pytest.approx(1.6)
    assert (plan.split, plan.query, plan.merge) == (2, 5, 3)  # 2 x 2 / 0.8, 5 x 4 x 0.1 / 0.8
    assert "5 query workers and 3 merge workers" in proposal.sentence


def test_apps_behind_the_nodes_get_the_workers_within_their_bounds() -> None:
    sizing = {"query_s": 2.0, "merge_s": 0.1, "partials": 4.0, "query_app": "delays", "merge_app": "elsewhere"}
    proposal, _ = advised(counts({"a": [3600] * 3, "b": [3600] * 3}), capacity=2.0, sizing=sizing)
    assert proposal.changes == (Change("delays", "slots", 2, 5),)
    proposal, _ = advised(counts({"a": [36000] * 3, "b": [36000] * 3}), capacity=20.0, sizing=sizing)
    assert proposal.changes == (Change("delays", "slots", 2, 8),), "no more than slots.max"


def test_apps_behind_the_nodes_get_what_the_budget_leaves() -> None:
    sizing = {"query_s": 2.0, "query_app": "delays"}
    told = look(counts({"a": [3600] * 3, "b": [3600] * 3}))
    optimizer = create("drfm", {"capacity": 2.0, "sizing": sizing}, Role.ADMISSION)
    (app,) = deployment(2).apps.values()
    current = replace(deployment(2), apps={**deployment(2).apps, "node0": app})
    for budget, slots in ((None, 5), (6, 4), (4, None), (3, None)):
        proposal, _ = optimizer.propose(replace(told, budget=budget), current, {})
        assert [change.value for change in proposal.changes] == [slots] * (slots is not None)
        assert proposal.predicted["slots_wanted/delays"] == 5, "others that share a quota know"


def test_advice_when_metadata_declare_a_rise_then_makes_room_before_it() -> None:
    told = {"minimum": 0.1, "maximum": 0.9, "high_duration": 6, "low_duration": 6, "transition": "jump"}
    phase = (counts({}).since.timestamp() / 3600 + 2) % 12
    streams = {name: {**told, "phase": phase} for name in "ab"}
    rows = {name: [360, 360] for name in "ab"}
    knowing = advised(counts(rows), streams=streams)[0].admission
    blind = advised(counts(rows))[0].admission
    assert knowing is not None and blind is not None
    assert (knowing.split, blind.split) == (2, 1)
    assert knowing.loads[0][0] == pytest.approx(0.9) and knowing.loads[0][6] == pytest.approx(0.1)
    deaf = advised(counts(rows), streams=streams, options={"method": "drf"})[0].admission
    assert deaf is not None and deaf.split == 1, "only horizon and drfm use what is told"


def test_advice_when_the_plan_will_not_hold_then_says_for_how_long_it_does() -> None:
    told = {"minimum": 0.1, "maximum": 0.9, "high_duration": 6, "low_duration": 6, "transition": "jump"}
    phase = (counts({}).since.timestamp() / 3600 + 5) % 12
    streams = {name: {**told, "phase": phase} for name in "ab"}
    rows = {name: [360, 360] for name in "ab"}
    proposal, _ = advised(counts(rows), streams=streams, options={"method": "drfm"})
    assert proposal.admission is not None and proposal.admission.holds == 3
    assert (
        "the fewest possible; fits for 3 of the next 16 periods, then nodes are up to 180 % full" in proposal.sentence
    )


@pytest.mark.parametrize("rows", [-5, None])
def test_advice_when_a_count_is_impossible_then_holds_with_the_reason(rows: int | None) -> None:
    _, kept = advised(counts({"a": [100]}))
    proposal, memory = advised(counts({"a": [5, rows]}, first=1), kept)
    assert (proposal.reason_code, proposal.admission) == ("bad_signals", None)
    assert proposal.sentence.startswith(f"Streams stay: streams.a.rows: got {rows}; allowed: a number of rows, >= 0")
    assert "2013-01-01 01:00:00" in proposal.sentence
    assert memory is kept


def test_advice_when_a_count_explodes_then_it_counts_as_not_seen() -> None:
    _, memory = advised(counts({"a": [1000] * 5}))
    proposal, _ = advised(counts({"a": [10**12]}, first=5), stored(memory))
    assert proposal.admission is not None and proposal.admission.highest_load == pytest.approx(1000 / 3600, rel=0.01)


def test_advice_when_periods_were_missed_then_streams_stay_at_their_nodes() -> None:
    rows = {name: [2000] * 5 for name in "abc"}
    _, memory = advised(counts(rows))
    proposal, after = advised(counts(rows, first=900), stored(memory))
    plan = proposal.admission
    assert plan is not None and plan.before == plan.after and plan.admitted == 0
    assert len(after["columns"]["history"]) == 5


def test_advice_when_periods_repeat_then_uses_only_new_ones() -> None:
    whole = {"a": [1000, 2000, 1500], "b": [500, 500, 700]}
    _, memory = advised(counts({name: rows[:2] for name, rows in whole.items()}))
    again = advised(counts(whole, version=2), stored(memory))
    alone = advised(counts({name: rows[2:] for name, rows in whole.items()}, first=2, version=2), stored(memory))
    assert again == alone


def test_advice_when_the_periods_have_another_length_then_starts_over() -> None:
    _, memory = advised(counts({"a": [100] * 3}))
    proposal, after = advised(counts({"a": [100] * 3}), {**stored(memory), "period_s": 60})
    assert proposal.admission is not None and proposal.admission.admitted == 1
    assert after["period_s"] == 3600


@pytest.mark.parametrize("method", METHODS)
@given(rows=histories(), cut=st.integers(1, 11))
@settings(deadline=None, max_examples=5)
def test_advice_is_the_same_for_periods_one_by_one_or_at_once(
    method: str, rows: dict[str, list[int]], cut: int
) -> None:
    section: dict[str, Any] = {"options": {"method": method, "quiet": 4, "relearn": 2, "history": 10}}
    whole, final = advised(counts(rows), **section)
    memory: Memory = {}
    for first in range(12):
        one = {name: of[first : first + 1] for name, of in rows.items()}
        last, memory = advised(counts(one, first=first), stored(memory), **section)
    _, part = advised(counts({name: of[:cut] for name, of in rows.items()}), **section)
    halved, rest = advised(counts({name: of[cut:] for name, of in rows.items()}, first=cut), stored(part), **section)
    for plan, kept in ((last.admission, memory), (halved.admission, rest)):
        assert plan is not None and whole.admission is not None
        of_both = [(p.stream, p.after, [p.loads[node] for node in p.used]) for p in (plan, whole.admission)]
        assert of_both[0] == of_both[1]
        assert stored(kept)["columns"] == stored(final)["columns"]


@pytest.mark.parametrize("method", METHODS)
@given(rows=histories(hours=5, streams=8))
@settings(deadline=None, max_examples=5)
def test_advice_gives_every_stream_one_node_and_sums_their_loads(method: str, rows: dict[str, list[int]]) -> None:
    proposal, memory = advised(counts(rows), options={"method": method})
    plan = proposal.admission
    assert plan is not None
    assert Counter(plan.stream) == Counter(name for name, of in rows.items() if any(of))
    assert len(plan.after) == len(plan.stream) == len(plan.before) and set(plan.after) <= set(range(len(plan.nodes)))
    assert dict(zip(memory["streams"], memory["node"], strict=True)) == dict(zip(plan.stream, plan.after, strict=True))
    empty = [load for node, load in enumerate(plan.loads) if node not in plan.used]
    assert not np.any(empty)
    assert from_json(Proposal, to_json(proposal)) == proposal
    assert plan.least_nodes <= plan.split or plan.holds == 0


junk = st.none() | st.integers(-5, 5) | st.text(max_size=3) | st.lists(st.integers(-2, 3), max_size=2)
KEYS = ("foreseen", "period_s", "until", "streams", "node", "seen", "columns")


@given(key=st.sampled_from(KEYS), value=junk | st.dictionaries(st.sampled_from(["rate", "history"]), junk, max_size=2))
@examples(60)
def test_advice_when_its_memory_is_junk_then_is_still_given(key: str, value: object) -> None:
    _, memory = advised(counts({"a": [100] * 3, "b": [50] * 3}))
    proposal, after = advised(counts({"a": [100], "b": [70]}, first=3, version=9), {**stored(memory), key: value})
    if proposal.reason_code != "no_new_profile":  # it may say that these periods are known
        assert proposal.admission is not None and proposal.admission.stream == ("a", "b")
        assert stored(after) == json.loads(json.dumps(after, allow_nan=False))


def test_advice_when_repeated_then_is_the_same() -> None:
    told = counts({name: [100 * i, 3000 - 70 * i, 800] for i, name in enumerate("abcdefghij")})
    assert advised(told) == advised(told)

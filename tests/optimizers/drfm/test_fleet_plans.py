"""Plans for a fleet: loads in slots, nodes that are behind, down or full."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from millrace.model.admission import AdmissionPlan, LoadUnit, StreamCounts
from millrace.model.codec import from_json, to_json
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Deployment
from millrace.model.errors import MillraceError
from millrace.optimizers.conformance.builders import deployment
from millrace.optimizers.drfm.ingest_tables import match_tables
from millrace.optimizers.drfm.observed_periods import first_period, new_periods
from millrace.optimizers.registry import Role, create
from tests.optimizers.drfm.stream_counts import HOUR_S, counts, look

NODES = ("node0", "node1", "node2", "node3")
METHODS = ("horizon", "drfm", "ard")


def in_slots(loads: Mapping[str, Sequence[float]], first: int = 0, rows: int = 100, **changes: Any) -> StreamCounts:
    """Loads of streams by hour, in slots; each hour with a load has so many rows."""
    told = counts({name: [rows if load else 0 for load in of] for name, of in loads.items()}, first=first)
    cells = zip(told.index, told.period, strict=True)
    slot_ms = tuple(round(1000 * HOUR_S * loads[told.stream[i]][period]) for i, period in cells)
    slots: dict[str, Any] = {"unit": LoadUnit.SLOTS, "slot_ms": slot_ms, "slots": 2, "utilisation": 0.75}
    return replace(told, fleet=True, **{**slots, **changes})


def planned(
    measured: StreamCounts,
    ingest: Mapping[str, int] | None = None,
    memory: Memory | None = None,
    nodes: int = 4,
    **section: Any,
) -> tuple[Proposal, Memory]:
    optimizer = create("drfm", {"ingest": list(NODES[:nodes]), **section}, Role.ADMISSION)
    return optimizer.propose(look(measured), running(ingest), memory or {})


def running(ingest: Mapping[str, int] | None) -> Deployment:
    return replace(deployment(2), ingest=dict(ingest or {}))


def fleet_of(ingest: Mapping[str, int], always: int = 1) -> Deployment:
    """A fleet of four nodes with two slots each, of which the first ones always run."""
    (app,) = deployment(2).apps.values()
    apps = {name: replace(app, standby=number >= always) for number, name in enumerate(NODES)}
    return replace(running(ingest), apps=apps)


def plan_of(proposal: Proposal) -> AdmissionPlan:
    assert proposal.admission is not None, proposal.sentence
    return proposal.admission


def test_plan_in_slots_fills_nodes_up_to_the_target_utilisation() -> None:
    proposal, memory = planned(in_slots({name: [0.4] * 4 for name in "abcdef"}))
    plan = plan_of(proposal)
    assert (plan.unit, plan.capacity, plan.split) == ("slots", 1.5, 2)
    assert plan.came == pytest.approx([0.4] * 6) and plan.total_came == pytest.approx([2.4] * 3)
    assert max(max(load) for load in plan.loads) == pytest.approx(1.2)
    assert proposal.sentence.startswith("admit 6 streams on 2 ingest nodes at 1.5 slots each, the fewest possible; ")
    assert "nodes at most 80 % full" in proposal.sentence
    assert json.loads(to_json(memory))["unit"] == "slots"
    assert from_json(Proposal, to_json(proposal)) == proposal


def test_stored_plan_without_a_unit_is_in_rows() -> None:
    plan = plan_of(planned(in_slots({"a": [0.4]}))[0])
    old = {
        name: value
        for name, value in json.loads(to_json(plan)).items()
        if name not in ("unit", "down", "missing", "lagging", "fleet")
    }
    assert from_json(AdmissionPlan, json.dumps(old)).unit is LoadUnit.ROWS


def test_capacity_in_rows_is_not_learned() -> None:
    told = in_slots({"a": [0.4]})
    rows = replace(told, unit=LoadUnit.ROWS, slot_ms=(), slots=0)
    proposal, memory = planned(rows)
    assert (proposal.reason_code, memory) == ("bad_signals", {}) and "admission.capacity" in proposal.sentence
    plan = plan_of(planned(rows, capacity=10.0)[0])
    assert (plan.unit, plan.capacity) == ("rows/s", 10.0)


def test_memory_of_another_unit_starts_over() -> None:
    rows = counts({"a": [3600] * 5})
    _, memory = planned(rows, capacity=10.0)
    again, slots = planned(in_slots({"a": [0.4]}, first=5), {"a": 2}, memory)
    plan = plan_of(again)
    assert (plan.before, plan.after, plan.forecast) == ((2,), (2,), (None,))
    assert len(slots["columns"]["history"]) == 1
    back, _ = planned(counts({"a": [3600]}, first=6), {"a": 2}, slots, capacity=10.0)
    assert plan_of(back).forecast == (None,)
    kept, _ = planned(in_slots({"a": [0.4]}, first=6), {"a": 2}, slots)
    assert plan_of(kept).forecast == (pytest.approx(0.4),)


def test_sizing_limits_nodes_in_slots_and_still_counts_rows() -> None:
    sizing = {"query_s": 2.0, "headroom": 0.5}
    proposal, _ = planned(in_slots({"a": [0.4] * 3, "b": [0.2] * 3}, rows=HOUR_S), sizing=sizing)
    plan = plan_of(proposal)
    assert plan.capacity == 1.0, "the lower of 0.75 and 0.5"
    assert plan.query == 8, "2 rows per second x 2 s / 0.5"
    in_rows = counts({"a": [HOUR_S] * 3, "b": [HOUR_S] * 3})
    assert plan_of(planned(in_rows, capacity=4.0, sizing=sizing)[0]).query == 8


def test_rates_of_metadata_need_a_capacity_in_rows() -> None:
    streams = {"a": {"period": 24, "maximum": 3.0}}
    with pytest.raises(MillraceError) as refused:
        planned(in_slots({"a": [0.4]}), streams=streams)
    assert refused.value.key == "admission.streams.a.maximum" and "admission.capacity" in refused.value.remedy
    assert planned(in_slots({"a": [0.4]}), streams={"a": {"period": 24, "transition": "jump"}})[0].admission


@pytest.mark.parametrize("load", [-1, None])
def test_impossible_loads_end_in_a_hold(load: int | None) -> None:
    told = replace(in_slots({"a": [0.4]}), slot_ms=(load,), fleet=False)
    assert planned(told)[0].sentence.startswith(f"Streams stay: streams.a.slot_ms: got {load}; allowed: a number of")
    with pytest.raises(MillraceError, match="telemetry/batches"):
        new_periods(replace(told, slot_ms=(-1,), fleet=True), [], first_period(told))


def test_periods_in_which_a_stream_did_not_report_count_as_expected() -> None:
    """Its node has died: without this, it would look idle, and other streams would move to that node."""
    _, memory = planned(in_slots({"a": [1.0] * 6, "b": [1.0] * 6}))
    silent = in_slots({"a": [1.0] * 4, "b": [1.0] * 4}, first=6)
    gone = [place for place, i in enumerate(silent.index) if silent.stream[i] == "b"]
    column = [None if at in gone else ms for at, ms in enumerate(silent.slot_ms)]
    silent = replace(silent, slot_ms=tuple(column), rows=tuple(None if ms is None else 100 for ms in column))
    proposal, after = planned(silent, {"a": 0, "b": 1}, memory)
    plan = plan_of(proposal)
    assert plan.after == (0, 1) and plan.loads[1][0] == pytest.approx(1.0, rel=0.01)
    assert plan.came == pytest.approx((1.0, 1.0)) and plan.error == pytest.approx(0.0, abs=1e-9)
    idle, _ = planned(in_slots({"a": [1.0] * 4, "b": [0.0] * 4}, first=6), {"a": 0, "b": 1}, memory)
    assert plan_of(idle).loads[plan_of(idle).after[1]][0] < 1.5
    assert from_json(Proposal, to_json(proposal)) == proposal and json.loads(to_json(after))


def test_stream_whose_load_is_not_known_is_placed() -> None:
    told = in_slots({"a": [1.0] * 3, "b": [1.0] * 3})
    unknown = replace(told, slot_ms=(*told.slot_ms[:5], None), rows=(*told.rows[:5], None))
    assert set(plan_of(planned(unknown)[0]).stream) == {"a", "b"}
    never = replace(told, slot_ms=(None,) * 6, rows=(None,) * 6)
    plan = plan_of(planned(never)[0])
    assert plan.stream == ("a", "b") and plan.came == (0.0, 0.0) and min(plan.after) >= 0


def test_node_that_is_behind_gives_streams_away() -> None:
    """Its streams fit, but they wait for 40 s: up to half of the node is for that."""
    loads, ingest = {name: [0.35] * 5 for name in "abcd"}, dict.fromkeys("abcd", 0)
    calm, _ = planned(in_slots(loads), ingest)
    assert plan_of(calm).redirections == 0
    busy = in_slots(loads, waiting=dict.fromkeys("abcd", 15_000))
    plan = plan_of(planned(busy, ingest)[0])
    assert plan.redirections > 0 and plan.split == 2
    elsewhere = in_slots(loads, waiting={"gone": 60_000})
    assert plan_of(planned(elsewhere, ingest)[0]).redirections == 0


def test_queue_counts_on_the_node_that_has_the_stream_and_only_in_the_newest_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    posed: list[Any] = []
    optimizer = create("drfm", {"ingest": list(NODES[:2])}, Role.ADMISSION)
    plans = type(optimizer.policy).planner

    def planner(policy: Any) -> Any:
        plan = plans(policy)
        return lambda problem: (posed.append(problem), plan(problem))[1]

    monkeypatch.setattr(type(optimizer.policy), "planner", planner)
    told = in_slots({name: [0.3] * 3 for name in "abc"}, waiting={"a": 3_000, "c": 1_500})
    optimizer.propose(look(told), running({"a": 0, "b": 0, "c": 1}), {})
    assert len(posed) == 1, "nobody carried out plans of the periods before"
    assert posed[0].latency_s.tolist() == pytest.approx([2.0, 1.0]), "of 1.5 slots"
    advice = create("drfm", {"capacity": 1.0}, Role.ADMISSION)
    rows = replace(counts({"a": [1800] * 3}), waiting={"a": 4})
    advice.propose(look(rows), running(None), {})
    assert [None if p.latency_s is None else p.latency_s.tolist() for p in posed[1:]] == [None, None, [4.0]]


@pytest.mark.parametrize("method", METHODS)
def test_streams_of_a_node_that_is_down_go_elsewhere(method: str) -> None:
    loads, ingest = {name: [0.2] * 4 for name in "abcdef"}, {name: at % 2 for at, name in enumerate("abcdef")}
    proposal, _ = planned(in_slots(loads, down=("node1",)), ingest, options={"method": method})
    plan = plan_of(proposal)
    assert (plan.rescued, plan.redirections, plan.admitted, plan.down) == (3, 0, 0, ("node1",))
    assert set(plan.after) == {0}, "there is room"
    assert plan.before == (0, 1, 0, 1, 0, 1) and plan.released == () and plan.changes
    assert proposal.reason_code == "streams_to_redirect"
    assert proposal.sentence.startswith("node1 is down: 3 streams to other nodes; 6 streams on ")
    after = running(ingest).with_changes(proposal.changes)
    assert dict(after.ingest) == dict(zip(plan.stream, plan.after, strict=True))
    again, _ = planned(in_slots(loads, down=("node1", "node3")), after.ingest, options={"method": method})
    assert plan_of(again).rescued == 0 and again.sentence.startswith("node1, node3 are down; ")


def test_new_streams_do_not_go_to_a_node_that_is_down() -> None:
    loads = {name: [1.4] * 3 for name in "abc"}
    plan = plan_of(planned(in_slots(loads, down=("node0", "node2")))[0])
    assert set(plan.after) == {1, 3} and plan.missing == 1


def test_if_all_nodes_are_down_streams_stay() -> None:
    told, memory = in_slots({"a": [0.2]}, down=NODES[:2]), {"period_s": HOUR_S}
    proposal, after = planned(told, {"a": 1}, memory, nodes=2)
    assert (proposal.reason_code, proposal.changes, proposal.admission) == ("all_nodes_down", (), None)
    assert proposal.sentence == "Streams stay: no ingest node can run them, as node0, node1 are down"
    assert after is memory


def test_if_all_nodes_are_full_the_plan_names_who_lags_and_what_helps() -> None:
    loads = {name: [1.0 + at / 10] * 4 for at, name in enumerate("abcde")}
    proposal, _ = planned(in_slots(loads), nodes=2)
    plan = plan_of(proposal)
    assert (plan.missing, len(set(plan.after)), plan.lagging[0]) == (3, 2, "e")
    full = (
        "all 2 ingest nodes are full, so these will lag: e, d, c and 2 more (raise fleet.nodes.max or fleet.node.slots)"
    )
    assert full in proposal.sentence and "fewest possible" not in proposal.sentence
    feed = replace(counts({name: [3000] * 4 for name in "abc"}), down=("t1",))
    table, _ = create("drfm", {"capacity": 1.0, "ingest": ["t0", "t1"]}, Role.ADMISSION).propose(
        look(feed), running(None), {}
    )
    assert (
        "the only ingest node is full, so these will lag: a, b, c (add a table to admission.ingest)" in table.sentence
    )
    fits, _ = planned(in_slots(loads), nodes=4)
    assert plan_of(fits).missing == 1 and "all 4 ingest nodes are full" in fits.sentence
    roomy, _ = planned(in_slots({"a": [1.0] * 4}))
    assert plan_of(roomy).missing == 0 and "full" not in roomy.sentence.replace("% full", "")


def test_only_streams_on_overloaded_nodes_lag() -> None:
    loads = {"big": [1.4] * 4, "b": [1.0] * 4, "c": [1.0] * 4}
    plan = plan_of(planned(in_slots(loads), nodes=2)[0])
    assert plan.missing == 1 and plan.lagging == ("b", "c")


def test_streams_without_room_stay_where_they_are() -> None:
    """Otherwise they would change nodes in every period, and no node would be less loaded."""
    loads = {name: [1.0 + at / 100] * 4 for at, name in enumerate("abcdef")}
    first, memory = planned(in_slots(loads), nodes=2)
    at = dict(zip(plan_of(first).stream, plan_of(first).after, strict=True))
    for hour in range(4, 8):
        noisy = {
            name: [of[0] * (1 + 0.02 * ((hour + place) % 3 - 1))] for place, (name, of) in enumerate(loads.items())
        }
        proposal, memory = planned(in_slots(noisy, first=hour), at, memory, nodes=2)
        assert plan_of(proposal).redirections == 0 and plan_of(proposal).missing > 0


def test_streams_stay_if_only_the_margin_is_too_small() -> None:
    """Rates that swing want more nodes than there are, but what is expected fits where it is."""
    at, memory, random = {"a": 0, "b": 0, "c": 1, "d": 1}, None, Random(7)
    redirected, wanted_more = 0, False
    for hour in range(24):
        swing = {name: [0.2 + 0.6 * random.random()] for name in at}
        proposal, memory = planned(in_slots(swing, first=hour), at, memory, nodes=2)
        plan = plan_of(proposal)
        redirected, wanted_more = redirected + plan.redirections, wanted_more or plan.missing > 0
        at = dict(zip(plan.stream, plan.after, strict=True))
    assert redirected <= 2 and not wanted_more


def test_stream_without_room_leaves_a_table_that_is_much_fuller() -> None:
    node, rate = np.array([0, 0, 1, 2]), np.array([40.0, 40.0, 20.0, 10.0])
    assert match_tables(node, np.array([0, 0, 1, 0]), 2, rate).tolist() == [0, 0, 1, 1]
    rate = np.array([40.0, 40.0, 75.0, 10.0])
    assert match_tables(node, np.array([0, 0, 1, 0]), 2, rate).tolist() == [0, 0, 1, 0]


def test_fleet_with_fewer_nodes_than_before_moves_streams_without_an_error() -> None:
    plan = plan_of(planned(in_slots({"a": [0.4] * 3, "b": [0.4] * 3}), {"a": 0, "b": 3}, nodes=2)[0])
    assert plan.before == (0, 3) and set(plan.after) <= {0, 1} and plan.released == ()


@pytest.mark.parametrize("method", METHODS)
def test_nodes_that_always_run_keep_their_streams_and_get_those_of_others(method: str) -> None:
    optimizer = create("drfm", {"ingest": list(NODES), "options": {"method": method}}, Role.ADMISSION)

    def nodes(ingest: Mapping[str, int], always: int) -> tuple[int, ...]:
        told = in_slots({name: [0.2] * 4 for name in ingest})
        return plan_of(optimizer.propose(look(told), fleet_of(ingest, always), {})[0]).after

    assert nodes({"a": 0, "b": 1, "c": 2}, always=3) == (0, 1, 2)
    assert nodes({"a": 0, "b": 1, "c": 2}, always=1) == (0, 0, 0)
    assert nodes({"a": 2, "b": 2, "c": 2}, always=1) == (0, 0, 0)


def within(
    budget: int,
    loads: Mapping[str, Sequence[float]],
    ingest: Mapping[str, int],
    *down: str,
    key: str = "budget.slots",
) -> Proposal:
    """What is proposed for a fleet of which one node always runs, if its pipeline may have so many slots."""
    optimizer = create("drfm", {"ingest": list(NODES)}, Role.ADMISSION)
    seen = replace(look(in_slots(loads, down=down)), budget=budget, budget_key=key)
    return optimizer.propose(seen, fleet_of(ingest), {})[0]


FULL_NODES: Mapping[str, Sequence[float]] = {"a": [1.4] * 4, "b": [1.2] * 4}


def test_new_stream_goes_to_the_least_loaded_node_if_the_budget_allows_no_other() -> None:
    loads, ingest = {**FULL_NODES, "new": [0.0, 0.0, 0.0, 0.4]}, {"a": 0, "b": 1}
    plan = plan_of(within(6, loads, ingest))
    assert (plan.after, plan.withheld, plan.missing) == ((0, 1, 2), ("node3",), 0)
    proposal = within(4, loads, ingest)
    plan = plan_of(proposal)
    assert (plan.after, plan.withheld, plan.missing) == ((0, 1, 1), ("node2", "node3"), 1)
    assert "all 2 ingest nodes are full, so these will lag: b, new (raise budget.slots)" in proposal.sentence
    assert from_json(Proposal, to_json(proposal)) == proposal


def test_slots_of_a_dead_node_are_for_the_one_that_takes_its_place() -> None:
    plan = plan_of(within(4, FULL_NODES, {"a": 0, "b": 1}, "node1"))
    assert (plan.after, plan.rescued, plan.withheld) == ((0, 2), 1, ("node3",))
    plan = plan_of(within(1, FULL_NODES, {"a": 0, "b": 2}))
    assert (plan.after, plan.withheld) == ((0, 2), ("node1", "node3")), "what runs may continue"
    stay = within(2, {"a": [0.2] * 4}, {"a": 0}, "node0")
    assert (stay.reason_code, stay.changes) == ("all_nodes_down", ())
    assert stay.sentence.endswith("as node0 is down, and budget.slots leaves no slots for others")


def test_nodes_above_the_share_of_a_quota_are_given_back() -> None:
    quota, loads = "guards.max_total_slots", {**FULL_NODES, "c": [1.3] * 4}
    spread = {"a": 0, "b": 1, "c": 2}
    proposal = within(5, loads, spread, key=quota)
    plan = plan_of(proposal)
    assert (plan.withheld, plan.released, set(plan.after)) == (("node2", "node3"), ("node2",), {0, 1})
    assert "these will lag" in proposal.sentence and "raise guards.max_total_slots" in proposal.sentence
    assert fleet_of(spread).with_changes(proposal.changes).slots == 4
    alone = plan_of(within(2, FULL_NODES, {"a": 0, "b": 1}, "node0", key=quota))
    assert set(alone.after) == {1}, "only node1 is up"

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.model.codec import from_json, to_json
from include.model.decision import Memory, Proposal
from include.model.errors import MillraceError
from include.model.placement import KeyGroups
from optimizers.conformance.builders import deployment
from optimizers.registry import Role, create
from tests.optimizers.albic.key_groups import groups, look


def advised(told: KeyGroups | None, memory: Memory | None = None, **options: object) -> tuple[Proposal, Memory]:
    return create("albic", options, Role.PLACEMENT).propose(look(told), deployment(2), memory or {})


def placed(*nodes: int) -> Memory:
    """Memory of groups 0.. on these nodes, advised at an earlier version."""
    half = len(nodes) / 2
    named = {f"{'plane' if i < half else 'route'}/{i}": node for i, node in enumerate(nodes)}
    return {"version": 0, "nodes": named}


def test_advice_when_nothing_is_new_then_is_silent_and_keeps_its_memory() -> None:
    kept = placed(0, 1)
    for told, memory in ((None, kept), (groups([1, 1], version=0), kept), (groups([]), kept)):
        proposal, after = advised(told, memory)
        assert (proposal.reason_code, proposal.sentence, proposal.placement) == ("no_new_profile", "", None)
        assert after == memory


def test_first_advice_places_every_group_and_collocates_partners() -> None:
    pairs = [(i, i + 8, 5.0) for i in range(8)]
    proposal, memory = advised(groups([5.0] * 16, pairs), workers=[1.0] * 4)
    plan = proposal.placement
    assert plan is not None and proposal.reason_code == "first_placement"
    assert plan.placed == 16 and plan.moves == 0 and plan.spent == 0
    assert plan.collocation_after == 1.0 and plan.pairs == 8
    assert plan.distance_after == pytest.approx(0, abs=1e-9)
    assert set(memory["nodes"].values()) == {0, 1, 2, 3}
    assert proposal.sentence.startswith("place 16 key groups on 4 workers; load distance 0.0")


@pytest.mark.parametrize("method", ["joint", "albic", "balancer"])
def test_first_advice_keeps_the_limit_of_a_second_resource(method: str) -> None:
    # partners that belong together by rows are the ones whose bytes do not fit on a node together
    size = [90.0, 10.0] * 4
    told = replace(groups([10.0] * 8, [(0, 2, 9.0), (4, 6, 9.0)]), bytes_per_s=tuple(size))
    limits = {"rows_per_s": 30.0, "bytes_per_s": 160.0}
    proposal, _ = advised(told, workers=[1.0] * 4, limits=limits, method=method)
    plan = proposal.placement
    assert plan is not None and plan.placed == 8 and plan.resource == "rows_per_s"
    assert np.bincount(plan.after, size, 4).max() <= 160.0


def test_advice_when_a_node_is_hot_then_moves_within_the_budget() -> None:
    proposal, memory = advised(groups([10.0] * 8), placed(0, 0, 0, 0, 0, 0, 1, 1), workers=[1.0, 1.0], budget=1)
    plan = proposal.placement
    assert plan is not None and proposal.reason_code == "groups_to_move"
    assert plan.moves == plan.spent == 1
    assert plan.bound <= plan.distance_after + 1e-9 < plan.distance_before
    assert proposal.sentence.startswith("move 1 key groups; load distance 25.0 -> 12.5, proven minimum ")
    again, _ = advised(groups([10.0] * 8, version=2), memory, workers=[1.0, 1.0], budget=1)
    assert again.placement is not None and again.placement.distance_before == pytest.approx(12.5)
    assert again.placement.distance_after == pytest.approx(0)


@pytest.mark.parametrize("method", ["joint", "albic", "balancer"])
def test_advice_when_all_is_well_then_nothing_moves(method: str) -> None:
    proposal, _ = advised(groups([10.0] * 4), placed(0, 1, 0, 1), workers=[1.0, 1.0], method=method)
    assert (proposal.reason_code, proposal.placement) == ("placement_stays", None)
    assert proposal.sentence == "Key groups stay: load distance 0.0, proven minimum 0.0"


def test_advice_when_a_worker_is_gone_then_its_groups_are_placed_anew() -> None:
    proposal, memory = advised(groups([10.0] * 4), placed(0, 1, 2, 2), workers=[1.0, 1.0])
    assert proposal.placement is not None and proposal.placement.placed == 2
    assert set(memory["nodes"].values()) <= {0, 1}


@pytest.mark.parametrize("rate", [-1.0, math.nan, math.inf])
def test_advice_when_figures_are_impossible_then_holds_with_the_reason(rate: float) -> None:
    proposal, memory = advised(groups([1.0, rate]), placed(0, 1))
    assert proposal.reason_code == "bad_signals" and proposal.placement is None
    assert "load" in proposal.sentence
    assert memory == placed(0, 1)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"workers": []}, "workers"),
        ({"workers": [1.0, 0.0]}, r"workers\[1\]"),
        ({"workers": "4"}, "workers"),
        ({"method": "best"}, "method"),
        ({"budget": -1}, "budget"),
        ({"cost": "money"}, "cost"),
        ({"exchange_ratio": math.inf}, "exchange_ratio"),
        ({"limits": {"rows": 5}}, r"limits\.rows"),
        ({"limits": {"rows_per_s": 0}}, r"limits\.rows_per_s"),
        ({"limits": 5}, "limits"),
        ({"seed": -1}, "seed"),
        ({"sead": 1}, "sead"),
    ],
)
def test_options_when_wrong_then_are_refused_by_name(options: dict[str, object], key: str) -> None:
    with pytest.raises(MillraceError, match=rf"placement\.options\.{key}: got .*; allowed: ") as told:
        create("albic", options, Role.PLACEMENT)
    assert told.value.remedy


junk = st.none() | st.integers(-5, 5) | st.text(max_size=3)


@given(nodes=st.dictionaries(st.sampled_from(["plane/0", "route/3", "x"]), junk) | junk, version=junk)
@settings(deadline=None, max_examples=30)
def test_advice_when_its_memory_is_junk_then_is_given_all_the_same(nodes: object, version: object) -> None:
    proposal, memory = advised(groups([1.0] * 4, version=9), {"nodes": nodes, "version": version})
    assert len(memory["nodes"]) == 4
    assert from_json(Proposal, to_json(proposal)) == proposal
    assert json.loads(json.dumps(memory, allow_nan=False)) == memory


def test_advice_when_asked_twice_then_is_the_same() -> None:
    told = groups([float(i) for i in range(20)], [(i, 19 - i, 1.0) for i in range(9)])
    assert advised(told) == advised(told)

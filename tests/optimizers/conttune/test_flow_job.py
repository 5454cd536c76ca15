"""flow as an Optimizer of a job with a p per operator: one evaluation at a time."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.objective import Bounds
from millrace.model.signals import Edge, Signals
from millrace.optimizers.conformance.builders import APP, NOON, dag_signals, deployment, operator, source, with_operator
from millrace.optimizers.registry import create
from tests.optimizers.conttune.flow_cases import FULL, POWER, WELL, ask_job, chain, targets

NAMES = ("a", "b", "c")


def well(rate: float, levels: dict[str, int], **changes: Any) -> Signals:
    return chain(rate, levels, **({"history": dict.fromkeys(levels, WELL)} | changes))


def levels(*each: int) -> dict[str, int]:
    return dict(zip(NAMES, each, strict=True))


# ---- up


def test_up_when_all_operators_are_too_small_then_one_step_sizes_all() -> None:
    found = ask_job(chain(400.0, levels(1, 1, 1)), levels(1, 1, 1))
    assert found.reason_code == "under_provisioned"
    assert set(targets(found)) == set(NAMES) and min(targets(found).values()) >= 5


def test_up_when_the_job_is_throttled_then_sizes_for_all_arrivals() -> None:
    parts = [source("in", 400.0, 100.0), operator("a", 1, 100.0, 100.0), operator("b", 1, 50.0, 100.0)]
    links = [Edge("in", "a", 100.0), Edge("a", "b", 50.0)]
    seen = dag_signals(parts, links, objective=FULL, bounds=Bounds(1, 16), backlog_growth_rows_per_s=300.0)
    found = targets(ask_job(seen, {"a": 1, "b": 1}))
    assert found["a"] >= 5 and 2 <= found["b"] < found["a"], "b takes in half of what arrives"


def test_up_of_one_operator_lets_others_return_their_excess() -> None:
    found = ask_job(well(300.0, levels(8, 2, 4)), levels(8, 2, 4))
    assert targets(found) == {"a": 4, "b": 4}
    assert found.reason_code == "under_provisioned", "what the step is for comes first"
    assert (
        found.sentence.startswith("b: 300 rows/s arrived in the last 10 s")
        and "a: Only 300 rows/s arrive" in found.sentence
    )
    assert targets(ask_job(well(300.0, levels(5, 2, 4)), levels(5, 2, 4), slack=0.3)) == {"b": 4}


def test_up_for_a_common_rise_leaves_operators_that_surely_keep_up() -> None:
    found = ask_job(well(560.0, levels(8, 2, 8)), levels(8, 2, 8))
    assert targets(found) == {"b": 8}
    predicted = found.predicted
    assert predicted["utilisation_ratio/b"] == pytest.approx(560 / POWER[8], rel=0.02)
    assert found.curve["parallelism"] == tuple(float(p) for p in range(1, 17))


def test_up_of_a_barely_small_operator_needs_a_growing_backlog() -> None:
    barely = 1.01 * POWER[4]
    calm, growing = (well(barely, levels(4, 4, 4), backlog_growth_rows_per_s=g) for g in (0.0, 0.1))
    assert targets(ask_job(calm, levels(4, 4, 4))) == {}
    assert targets(ask_job(growing, levels(4, 4, 4))) == levels(5, 5, 5)


def test_up_of_a_job_behind_gives_the_most_loaded_one_more() -> None:
    seen = with_operator(well(300.0, levels(4, 4, 4), backlog_growth_rows_per_s=5.0), "b", throughput=310.0)
    seen = replace(seen, observations=tuple(o for o in seen.observations if not o.operator.endswith("/b")))
    assert targets(ask_job(seen, levels(4, 4, 4)))["b"] > 4
    hardly = well(300.0, levels(4, 4, 4), backlog_growth_rows_per_s=0.1)
    assert targets(ask_job(hardly, levels(4, 4, 4))) == {}


def test_up_with_too_few_tasks_stays_and_says_which_operator() -> None:
    starved = with_operator(well(340.0, levels(4, 4, 4)), "b", parallelism=2, throughput=POWER[2])
    found = ask_job(starved, levels(4, 4, 4))
    assert (targets(found), found.reason_code) == ({}, "too_few_tasks")
    assert found.sentence.startswith("b: Only 2 of 4 tasks had work")


FLAT = {2: [190.0] * 5, 4: [192.0] * 5}


def test_up_that_brought_an_operator_nothing_is_reverted() -> None:
    seen = with_operator(well(340.0, levels(4, 2, 8), history={"a": FLAT, "b": WELL, "c": WELL}), "a", throughput=191)
    found = ask_job(seen, levels(4, 2, 8))
    assert found.reason_code == "ineffective_scaling"
    assert targets(found)["a"] == 2 and targets(found)["b"] >= 4
    alone = with_operator(well(340.0, levels(2, 4, 4), history={"a": FLAT, "b": WELL, "c": WELL}), "a", throughput=190)
    found = ask_job(alone, levels(2, 4, 4))
    assert (targets(found), found.reason_code) == ({}, "ineffective_scaling")


def test_up_when_part_of_the_job_is_not_measured_then_sizes_the_rest() -> None:
    seen = with_operator(chain(340.0, levels(2, 2, 2)), "b", throughput=None)
    assert set(targets(ask_job(seen, levels(2, 2, 2)))) == {"a", "c"}
    edges = (Edge("in", "a", 340.0), Edge("a", "b", None), Edge("b", "c", 340.0))
    unknown = replace(seen, apps=(replace(seen.apps[0], edges=edges),))
    assert set(targets(ask_job(unknown, levels(2, 2, 2)))) == {"a"}


def test_up_when_nothing_in_the_job_is_measured_then_says_so_for_each() -> None:
    seen = chain(340.0, levels(2, 2, 2))
    for name in NAMES:
        seen = with_operator(seen, name, throughput=None)
    found = ask_job(seen, levels(2, 2, 2))
    assert (targets(found), found.reason_code) == ({}, "capacity_unknown")
    assert all(f"{APP}/{name}" in found.sentence for name in NAMES)


def test_sources_when_they_are_slow_then_are_never_sized() -> None:
    seen = chain(400.0, levels(1, 1, 1))
    assert "in" not in targets(ask_job(seen, levels(1, 1, 1)))


def test_room_when_a_job_has_many_operators_then_each_takes_more_of_it() -> None:
    alone = {"a": 1}
    many = {f"o{i}": 1 for i in range(12)}
    wide = {"bounds": Bounds(1, 90)}
    one = targets(ask_job(chain(500.0, alone, **wide), alone))["a"]
    each = set(targets(ask_job(chain(500.0, many, **wide), many)).values())
    assert len(each) == 1 and min(each) > one


# ---- down


def test_down_when_the_job_is_idle_then_one_step_shrinks_all() -> None:
    found = ask_job(well(150.0, levels(4, 8, 4)), levels(4, 8, 4))
    assert (targets(found), found.reason_code) == (levels(2, 2, 2), "over_provisioned")


def test_down_that_frees_little_of_the_whole_job_stays() -> None:
    big, small = {"a": 8, "b": 8, "c": 3}, {"b": 8, "c": 3}
    seen = well(600.0, big)
    seen = replace(seen, apps=(replace(seen.apps[0], edges=(*seen.apps[0].edges[:2], Edge("b", "c", 90.0))),))
    assert targets(ask_job(seen, big, slack=0.12)) == {}
    assert targets(ask_job(seen, big, slack=0.05)) == {"c": 1}
    assert small.items() <= big.items()


def test_down_when_rows_wait_then_waits_until_they_are_processed() -> None:
    found = ask_job(well(150.0, levels(4, 4, 4), backlog_rows=9000), levels(4, 4, 4))
    assert (targets(found), found.reason_code) == ({}, "draining")
    assert targets(ask_job(well(150.0, levels(4, 4, 4), backlog_rows=9000), levels(4, 4, 4), catch_up=False)) != {}


def test_down_when_nothing_arrives_then_goes_to_the_least() -> None:
    stopped = replace(well(0.0, levels(4, 4, 4)), bounds=Bounds(1, 8))
    _, memory = create("flow", {}).propose(well(300.0, levels(4, 4, 4)), deployment(12, levels(4, 4, 4)), {})
    quiet = ask_job(stopped, levels(4, 4, 4), memory, whole_windows=False)
    assert targets(quiet) == levels(1, 1, 1)


# ---- how the rate has moved


def wandered(rate: float, runs: list[list[float]], latest: list[float]) -> dict[str, Any]:
    return {"apps": {APP: {"rate": rate, "runs": runs, "latest": latest}}}


def test_step_when_the_rate_wanders_then_has_room_for_its_usual_range() -> None:
    around = [[rate, 5] for _ in range(5) for rate in (310.0, 260.0, 325.0, 280.0)]
    memory = wandered(300.0, around, [300.0] * 8)
    cold = chain(300.0, {"a": 1}, bounds=Bounds(1, 90))
    plain = targets(ask_job(cold, {"a": 1}, memory, fluctuation=False))["a"]
    found = ask_job(cold, {"a": 1}, memory)
    assert targets(found)["a"] > plain
    assert "a: 300 rows/s arrived in the last 10 s" in found.sentence, (
        "what arrives now, and not what there is room for"
    )
    known = found.predicted["throughput_rows_per_s/a"]
    assert found.predicted["utilisation_ratio/a"] == pytest.approx(300 / known)
    assert targets(ask_job(cold, {"a": 1}))["a"] == plain


def test_step_with_room_is_not_followed_by_moves_within_it() -> None:
    around = [[rate, 5] for _ in range(5) for rate in (310.0, 260.0, 325.0, 280.0)]
    seen = well(255.0, {"a": 4})
    assert targets(ask_job(seen, {"a": 4}, wandered(255.0, around, [255.0] * 8), slack=0.1)) == {}
    assert targets(ask_job(seen, {"a": 4}, slack=0.1)) == {"a": 3}


def test_proactive_step_comes_before_a_steady_rise_is_due() -> None:
    latest = [300 * 1.03**i for i in range(-8, 0)]
    seen = well(300.0, {"a": 4}, bounds=Bounds(1, 32))
    memory = wandered(latest[-1], [[rate, 1] for rate in latest], latest)
    assert targets(ask_job(seen, {"a": 4}, memory)) == {}
    soon = chain(345.0, {"a": 4}, history={"a": WELL}, bounds=Bounds(1, 32))
    rising = [345 * 1.03**i for i in range(-8, 0)]
    ahead = ask_job(soon, {"a": 4}, wandered(rising[-1], [[r, 1] for r in rising], rising), proactive=True)
    assert targets(ahead)["a"] > 5, "for where the rate will be, not for the next two evaluations alone"


def test_memory_stays_small_over_very_many_evaluations() -> None:
    tuner, memory, rng, sizes = create("flow", {"proactive": True}), {}, random.Random(1), []
    for number in range(330):
        rate = (200, 216)[number % 2] * rng.uniform(0.98, 1.02)
        seen = well(rate, levels(4, 4, 4), until=NOON + timedelta(seconds=30 * number))
        _, memory = tuner.propose(seen, deployment(12, levels(4, 4, 4)), memory)
        sizes.append(len(json.dumps(memory, allow_nan=False)))
    assert sizes[-1] < 1.02 * sizes[270] and sizes[-1] < 20_000


# ---- properties


@given(
    rates=st.lists(st.floats(1, 3000), min_size=2, max_size=4).map(sorted),
    each=st.lists(st.integers(1, 8), min_size=3, max_size=3),
    known=st.lists(st.sets(st.integers(1, 8), max_size=3), min_size=3, max_size=3),
    growth=st.floats(0, 100),
)
@settings(max_examples=15, deadline=None)
def test_step_up_takes_nothing_from_operators_that_are_too_small(
    rates: list[float], each: list[int], known: list[set[int]], growth: float
) -> None:
    now = levels(*each)
    history = {name: {p: POWER[p] for p in of} for name, of in zip(NAMES, known, strict=True)}
    before: dict[str, int] = {}
    for rate in rates:
        seen = chain(rate, now, history=history, backlog_growth_rows_per_s=growth)
        found = targets(ask_job(seen, now, ineffective_thr=0))
        up = {name: p for name, p in found.items() if p > now[name]}
        assert all(up.get(name, 0) >= p for name, p in before.items())
        before = up


@given(order=st.permutations(range(4)), rate=st.floats(1, 600))
@settings(max_examples=10, deadline=None)
def test_targets_do_not_depend_on_the_order_of_operators(order: list[int], rate: float) -> None:
    seen = well(rate, levels(4, 2, 4))
    app = seen.apps[0]
    mixed = replace(seen, apps=(replace(app, operators=tuple(app.operators[i] for i in order)),))
    assert targets(ask_job(mixed, levels(4, 2, 4))) == targets(ask_job(seen, levels(4, 2, 4)))

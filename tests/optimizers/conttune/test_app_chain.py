"""Apps that feed each other: needs, parts of the lag goal, and one decision for all."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.arrival import ArrivalBasis
from millrace.model.decision import Proposal
from millrace.model.deployment import AppDeployment, Deployment, ExecutorSize
from millrace.model.objective import Bounds, Objective
from millrace.model.signals import AppSignals, Edge, Signals
from millrace.optimizers.conformance.builders import app_signals, capacity, observed, signals
from millrace.optimizers.conttune.app_chain import in_chain
from millrace.optimizers.registry import create
from tests.examples import examples

NAMES = ("clean", "enrich", "count")
ABILITY = 30.0
"""Rows per second and slot."""


def app(name: str, arrival: float, slots: int = 1, fixed_s: float = 1.0, **changes: Any) -> AppSignals:
    measured = capacity(slots, ABILITY * slots, fixed_s=fixed_s)
    return app_signals(slots, arrival, measured, app=name, **changes)


def chain(*apps: AppSignals, links: tuple[Edge, ...] | None = None, **changes: Any) -> Signals:
    """Apps in a row: what arrives at each is what the one before it has passed on so far."""
    rows = tuple(Edge(a.app, b.app, b.arrival_rows_per_s) for a, b in pairwise(apps))
    history = tuple(o for a in apps for o in observed({p: [ABILITY * p] * 5 for p in (1, 2, 4, 8)}, operator=a.app))
    plain = signals(apps[0], history, objective=Objective(max_lag_s=60))
    bounds = {a.app: Bounds(1, 8) for a in apps}
    return replace(plain, apps=apps, edges=rows if links is None else links, app_bounds=bounds, **changes)


def deployed(*apps: AppSignals) -> Deployment:
    content = {a.app: AppDeployment("x.py", (), a.slots, 1024, 8, executor=ExecutorSize(1, 512)) for a in apps}
    return Deployment("delays", 1, True, content)


def ask(seen: Signals, tuner: str = "flow", **options: Any) -> Proposal:
    return create(tuner, options).propose(seen, deployed(*seen.apps), {})[0]


def targets(proposal: Proposal) -> dict[str, float]:
    return {change.app: change.value for change in proposal.changes}


def test_rise_at_the_head_is_the_need_of_every_app_before_it_arrives_there() -> None:
    before = chain(*(app(name, 20.0) for name in NAMES))
    _, ratios = in_chain(before, {})
    risen = chain(app("clean", 80.0, processed_rows_per_s=30.0), app("enrich", 30.0), app("count", 30.0))
    each, _ = in_chain(risen, ratios)
    assert [s.apps[0].app for s in each] == list(NAMES)
    assert [s.apps[0].arrival_rows_per_s for s in each] == pytest.approx([80, 80, 80], rel=0.05)
    assert [s.apps[0].arrival_basis for s in each][1:] == [ArrivalBasis.FED] * 2


def test_period_of_each_app_is_its_own() -> None:
    seen = chain(app("clean", 20.0), app("count", 20.0), links=())
    since, until = seen.until - timedelta(seconds=4), seen.until - timedelta(seconds=1)
    own = replace(seen, apps=(replace(seen.apps[0], since=since, until=until), seen.apps[1]))
    assert [(s.since, s.until) for s in in_chain(own, {})[0]] == [(since, until), (seen.since, seen.until)]


@pytest.mark.parametrize("tuner", ["flow", "ds2"])
def test_one_proposal_sizes_all_apps_for_a_rise_at_the_head(tuner: str) -> None:
    risen = [app("clean", 80.0, processed_rows_per_s=30.0), app("enrich", 30.0), app("count", 30.0)]
    told = ask(chain(*risen), tuner)
    assert set(targets(told)) == set(NAMES)
    assert all(value >= 3 for value in targets(told).values())
    assert all(f"{name}: " in told.sentence for name in NAMES)
    assert {f"throughput_rows_per_s/{name}" for name in NAMES} <= set(told.predicted)


def test_rows_that_wait_at_an_app_are_backlog_of_those_that_it_feeds() -> None:
    late = chain(app("clean", 20.0, backlog_rows=5000), app("enrich", 20.0), app("count", 20.0))
    each, _ = in_chain(late, {})
    assert each[0].apps[0].backlog_rows == 5000
    assert all(4000 < (s.apps[0].backlog_rows or 0) < 5000 for s in each[1:])


def test_rows_that_one_batch_has_just_written_are_no_backlog() -> None:
    link = Edge("clean", "count", 20.0, taken_rows_per_s=20.0, lump_rows=400.0)
    each, _ = in_chain(chain(app("clean", 20.0), app("count", 150.0, backlog_rows=450), links=(link,)), {})
    assert (each[1].apps[0].arrival_rows_per_s, each[1].apps[0].backlog_rows) == (pytest.approx(20.0), 50)


def test_rate_from_outside_counts_beside_the_rate_from_others() -> None:
    joined = chain(app("clean", 20.0), app("count", 50.0), links=(Edge("clean", "count", 20.0, share=0.4),))
    each, ratios = in_chain(joined, {})
    assert each[1].apps[0].arrival_rows_per_s == pytest.approx(50.0, rel=0.01)
    risen = chain(
        app("clean", 60.0, processed_rows_per_s=20.0),
        app("count", 50.0),
        links=(Edge("clean", "count", 20.0, share=0.4),),
    )
    assert in_chain(risen, ratios)[0][1].apps[0].arrival_rows_per_s == pytest.approx(90.0, rel=0.01)


def test_head_whose_arrival_is_only_a_lower_bound_leaves_the_others_as_measured() -> None:
    head = app("clean", 80.0, processed_rows_per_s=30.0, arrival_basis=ArrivalBasis.AT_LEAST)
    each, _ = in_chain(chain(head, app("count", 25.0)), {})
    assert each[1].apps[0].arrival_rows_per_s == 25.0


def test_only_app_that_has_reported_keeps_to_its_own_bounds() -> None:
    one = replace(
        chain(app("count", 200.0)), bounds=Bounds(1, 2), app_bounds={"clean": Bounds(1, 2), "count": Bounds(1, 6)}
    )
    assert targets(ask(one)) == {"count": 6}


def test_apps_without_an_edge_are_sized_by_what_they_measure() -> None:
    each, ratios = in_chain(chain(app("clean", 80.0), app("count", 25.0), links=()), {})
    assert [s.apps[0].arrival_rows_per_s for s in each] == [80.0, 25.0] and ratios == {}


@given(fixed=st.lists(st.floats(0.1, 20), min_size=2, max_size=6), data=st.data())
@examples(100)
def test_parts_of_the_lag_goal_fill_no_path_beyond_it(fixed: list[float], data: st.DataObject) -> None:
    apps = [app(f"a{n}", 10.0, fixed_s=fixed_s) for n, fixed_s in enumerate(fixed)]
    possible = [(a.app, b.app) for n, a in enumerate(apps) for b in apps[n + 1 :]]
    chosen = data.draw(st.lists(st.sampled_from(possible), unique=True))
    links = tuple(Edge(a, b, 10.0) for a, b in chosen)
    each, _ = in_chain(chain(*apps, links=links), {})
    goal = {s.apps[0].app: s.objective.max_lag_s for s in each}

    def longest(name: str) -> float:
        return goal[name] + max((longest(b) for a, b in chosen if a == name), default=0.0)

    assert all(longest(a.app) <= 60 * (1 + 1e-9) for a in apps)
    alone = [a.app for a in apps if all(a.app not in pair for pair in chosen)]
    assert all(goal[name] == pytest.approx(60) for name in alone)


def test_apps_whose_slots_are_fixed_are_not_sized() -> None:
    seen = replace(chain(app("clean", 20.0), app("count", 200.0)), fixed=("count",))
    assert ask(seen).sentence and "count" not in ask(seen).sentence
    nodes = ask(replace(seen, fixed=("clean", "count")))
    assert (nodes.changes, nodes.sentence, nodes.contingencies) == ((), "", ())


def test_settled_apps_are_sized_while_another_settles() -> None:
    busy = [app("clean", 80.0, settling=True), app("count", 80.0)]
    told = ask(chain(*busy, links=(), settling=True))
    assert "count" in targets(told)


def rising(**abilities: float) -> Signals:
    """Apps in a row with two slots, 55 rows/s, and a throughput per slot of each."""
    apps = [
        replace(app(name, 55.0, slots=2, fixed_s=0.2), capacity=capacity(2, 2 * per_slot, fixed_s=0.2))
        for name, per_slot in abilities.items()
    ]
    history = tuple(
        o
        for name, per_slot in abilities.items()
        for o in observed({p: [per_slot * p] * 5 for p in (2, 4)}, operator=name)
    )
    return replace(chain(*apps), observations=history)


def test_apps_that_would_follow_soon_are_scaled_up_with_the_first() -> None:
    told = ask(rising(clean=30.0, enrich=38.0, count=50.0))
    assert targets(told).keys() == {"clean", "enrich"}
    assert "enrich: 55 rows/s have to be processed, and 2 slots would be too few at 25 % more." in told.sentence
    assert told.predicted["utilisation_ratio/enrich"] == pytest.approx(55 / (38 * targets(told)["enrich"]), rel=0.1)


def test_apps_do_not_follow_if_none_needs_more() -> None:
    assert targets(ask(rising(clean=38.0, enrich=38.0, count=50.0))) == {}


def test_published_tuners_scale_each_app_by_its_own_rate() -> None:
    assert targets(ask(rising(clean=30.0, enrich=38.0, count=50.0), "ds2")).keys() <= {"clean", "enrich", "count"}
    assert not create("ds2", {}).scales_together


def test_apps_that_are_not_connected_do_not_follow() -> None:
    seen = replace(rising(clean=30.0, enrich=38.0), edges=())
    assert targets(ask(seen)).keys() == {"clean"}


def test_budget_goes_to_the_apps_that_limit_the_pipeline() -> None:
    seen = chain(app("clean", 200.0), app("enrich", 200.0), links=(), budget=10)
    told = ask(seen)
    assert sum(targets(told).values()) <= 10
    assert targets(told) == {"clean": 5, "enrich": 5}
    assert "budget.slots leaves 10 for this pipeline, which sustains" in told.sentence
    assert told.contingencies == ()


def test_what_is_left_of_the_budget_goes_to_apps_that_want_more_than_their_rate() -> None:
    busy = [app("clean", 100.0, backlog_rows=6000), app("enrich", 100.0, backlog_rows=6000)]
    seen = chain(*busy, links=())
    wanted = targets(ask(seen))
    assert all(value > 4 for value in wanted.values())  # 4 sustain the rate
    told = targets(ask(replace(seen, budget=9)))
    assert sorted(told.values()) in ([4, 5], [4, 4]) and sum(told.values()) >= 8
    one_less = int(sum(wanted.values())) - 1
    assert sum(targets(ask(replace(seen, budget=one_less))).values()) >= one_less - 1


def test_slots_of_an_app_that_was_not_measured_count_in_the_budget() -> None:
    seen = chain(app("clean", 200.0), budget=9)
    apps = deployed(app("clean", 200.0), app("count", 1.0, slots=6))
    told = create("flow", {}).propose(replace(seen, app_bounds={"clean": Bounds(1, 8)}), apps, {})[0]
    assert targets(told) == {"clean": 3}


def test_slots_that_have_not_come_yet_count_in_the_budget() -> None:
    seen = chain(app("clean", 200.0, slots=2, settling=True), app("count", 200.0, slots=2), links=(), budget=12)
    current = deployed(app("clean", 200.0, slots=8), app("count", 200.0, slots=2))
    told = create("flow", {}).propose(seen, current, {})[0]
    assert targets(told) == {"count": 4}


def test_apps_without_figures_that_exceed_the_budget_give_up_no_more_than_they_must() -> None:
    seen = chain(app("clean", 9.0, slots=8, settling=True), app("count", 9.0, slots=8, settling=True), budget=14)
    told = ask(seen)
    assert targets(told) in ({"clean": 7, "count": 7}, {"clean": 6, "count": 6})
    assert "clean wants 8 slots and gets 7: budget.slots leaves 14 for this pipeline." in told.sentence
    assert "sustains" not in told.sentence


def test_budget_that_is_enough_changes_nothing() -> None:
    seen = chain(app("clean", 80.0), app("enrich", 80.0), links=())
    assert ask(replace(seen, budget=16)) == ask(seen)


def test_plan_for_more_arrival_contains_the_apps_that_get_the_rows_next() -> None:
    counted = {"arrival_basis": ArrivalBasis.COUNTED}
    plan = ask(chain(*(app(name, 20.0, **counted) for name in NAMES))).contingencies
    rates = [line for line in plan if line.above_rows_per_s is not None]
    assert {line.app for line in rates} == {"clean"} and len(rates) >= 2
    assert all(set(line.others) == {"enrich", "count"} for line in rates)
    for line, lower in zip(rates[1:], rates, strict=False):
        assert all(slots >= lower.others[name] for name, slots in line.others.items())
    highest = rates[-1]
    assert highest.slots == 8 and set(highest.others.values()) == {8}
    assert not any(line.others for line in plan if line.above_rows_per_s is None)


def test_plan_made_while_nothing_arrives_contains_them_too() -> None:
    counted = {"arrival_basis": ArrivalBasis.COUNTED}
    tuner = create("flow", {})
    busy, silent = (chain(*(app(name, rate, **counted) for name in NAMES)) for rate in (20.0, 0.0))
    _, memory = tuner.propose(busy, deployed(*busy.apps), {})
    plan = tuner.propose(silent, deployed(*silent.apps), memory)[0].contingencies
    rates = [line for line in plan if line.above_rows_per_s is not None]
    assert rates and all(set(line.others) == {"enrich", "count"} for line in rates)


def test_plan_leaves_out_apps_that_get_few_of_the_rows_or_are_large_enough() -> None:
    counted = {"arrival_basis": ArrivalBasis.COUNTED}
    apart = chain(app("clean", 20.0, **counted), app("other", 20.0, **counted), links=())
    assert not any(line.others for line in ask(apart).contingencies)
    link = Edge("clean", "count", 0.2, share=0.05)
    few = chain(app("clean", 20.0, **counted), app("count", 20.0, **counted), links=(link,))
    first = next(line for line in ask(few).contingencies if line.app == "clean")
    assert first.others == {}
    large = ask(chain(app("clean", 20.0, slots=2, **counted), app("count", 220.0, slots=8)))
    assert not any("count" in line.others for line in large.contingencies), "it has all that it may have"

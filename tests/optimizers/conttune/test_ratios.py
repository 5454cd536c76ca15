from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.signals import Edge, OperatorSignals
from millrace.optimizers.conformance.builders import app_signals, dag_signals, deployment, operator, source
from millrace.optimizers.conttune.job_graph import Job, build_job, whole_app
from millrace.optimizers.conttune.ratios import EVALUATION_SD, FORGET, Need, Ratio, Ratios, find_needs, learn_ratios


def a_job(
    arrivals: Mapping[str, float | None],
    links: Mapping[tuple[str, str], float | None],
    took: Mapping[str, float | None] | None = None,
) -> Job:
    """A job whose operators receive the rows in ``took``, or else everything from their edges."""
    names = dict.fromkeys(name for link in links for name in link)
    told: list[OperatorSignals] = [source(name, rate) for name, rate in arrivals.items()]
    for name in names:
        if name not in arrivals:
            into = [rate or 0.0 for (_, consumer), rate in links.items() if consumer == name]
            told.append(operator(name, 2, (took or {}).get(name, sum(into)), 1000.0))
    edges = [Edge(producer, consumer, rate) for (producer, consumer), rate in links.items()]
    app = dag_signals(told, edges).apps[0]
    return build_job(app, deployment(app.slots, {o.operator: 2 for o in told if o.arrival_rows_per_s is None}))


def after(jobs: Sequence[Job]) -> Ratios:
    ratios: Ratios = {}
    for each in jobs:
        ratios = learn_ratios(each, ratios)
    return ratios


def rates_of(found: Mapping[str | None, Need]) -> dict[str | None, float]:
    return {name: need.rate for name, need in found.items()}


def test_needs_follow_the_arrival_through_branches_and_joins() -> None:
    seen = a_job(
        {"left": 100.0, "right": 40.0},
        {
            ("left", "filter"): 100.0,
            ("filter", "join"): 50.0,
            ("right", "join"): 80.0,
            ("join", "sink"): 13.0,
            ("filter", "log"): 10.0,
        },
    )
    found = find_needs(seen, learn_ratios(seen, {}))
    assert rates_of(found) == pytest.approx(
        {"left": 100, "right": 40, "filter": 100, "join": 130, "sink": 13, "log": 10}
    )


def test_needs_of_a_throttled_job_cover_all_arrivals() -> None:
    links = {("in", "map"): 300.0, ("map", "sink"): 150.0}
    told = [source("in", 1000.0, 300.0), operator("map", 2, 300.0, 300.0), operator("sink", 2, 150.0, 900.0)]
    app = dag_signals(told, [Edge(a, b, rate) for (a, b), rate in links.items()]).apps[0]
    seen = build_job(app, deployment(app.slots, {"map": 2, "sink": 2}))
    assert rates_of(find_needs(seen, learn_ratios(seen, {}))) == pytest.approx({"in": 1000, "map": 1000, "sink": 500})


def test_need_of_a_source_with_inputs_is_the_sum_of_both() -> None:
    told = [source("in", 60.0), source("mix", 40.0, 100.0)]
    app = dag_signals(told, [Edge("in", "mix", 60.0)]).apps[0]
    seen = build_job(app, deployment(app.slots, {"mix": 2}))
    assert find_needs(seen, learn_ratios(seen, {}))["mix"].rate == pytest.approx(100)


def test_need_of_an_app_as_one_operator_is_surely_the_arrival_rate() -> None:
    app = app_signals(2, 250.0, None)
    assert find_needs(Job(app, (whole_app(app),), ()), {}) == {None: Need(250.0, 0.0)}


@pytest.mark.parametrize("missing", ["the source's arrival", "an edge's rate", "what the producer took in"])
def test_needs_leave_out_only_operators_that_depend_on_an_unknown(missing: str) -> None:
    arrivals: dict[str, float | None] = {"left": 100.0, "right": 40.0}
    links: dict[tuple[str, str], float | None] = {
        ("left", "map"): 100.0,
        ("map", "join"): 50.0,
        ("right", "join"): 40.0,
        ("right", "log"): 4.0,
    }
    took: dict[str, float | None] = {}
    if missing == "the source's arrival":
        arrivals["left"] = None
    elif missing == "an edge's rate":
        links["left", "map"] = None
        took["map"] = 100.0
    else:
        took["map"] = None
    seen = a_job(arrivals, links, took)
    found = find_needs(seen, learn_ratios(seen, {}))
    assert "join" not in found
    assert rates_of(found)["log"] == pytest.approx(4.0)


def test_ratio_of_an_unmeasured_edge_stays_as_known() -> None:
    seen = a_job({"in": 100.0}, {("in", "map"): 50.0})
    silent = a_job({"in": 400.0}, {("in", "map"): None})
    stopped = a_job({"in": 0.0}, {("in", "map"): 0.0})
    assert rates_of(find_needs(silent, after([seen, silent, stopped]))) == pytest.approx({"in": 400, "map": 200})


def bursts(seed: int, near_zero: float) -> list[Job]:
    """A window that emits half of its input, in bursts, and in some evaluations almost nothing."""
    rng = random.Random(seed)
    jobs = []
    for _ in range(120):
        rate = rng.choice([100.0, 300.0, 900.0])
        out = 0.001 if rng.random() < near_zero else 0.5 / (1 - near_zero) * rate * math.exp(rng.gauss(-0.02, 0.2))
        jobs.append(a_job({"in": rate}, {("in", "window"): rate, ("window", "sink"): out}))
    return jobs


@pytest.mark.parametrize("seed", range(5))
def test_ratio_of_bursts_is_that_of_sums_with_its_error(seed: int) -> None:
    jobs = bursts(seed, 0.2)
    ratio = after(jobs)["window", "sink"]
    error = math.sqrt(ratio.variance)
    assert ratio.mean == pytest.approx(0.5, rel=0.2)
    assert abs(ratio.mean / 0.5 - 1) < 3.5 * error
    assert 0.02 < error < 0.15
    steady = after(bursts(seed, 0.0))["in", "window"]
    assert steady.variance == pytest.approx(EVALUATION_SD**2 / steady.evaluations)


def test_ratio_forgets_the_oldest_evaluations() -> None:
    old = [a_job({"in": 100.0}, {("in", "map"): 100.0})] * 100
    new = [a_job({"in": 100.0}, {("in", "map"): 20.0})] * 400
    ratio = after([*old, *new])["in", "map"]
    assert ratio.mean == pytest.approx(0.2, rel=0.1)
    assert ratio.evaluations == pytest.approx(1 / (1 - FORGET), rel=0.01)


def test_variance_adds_up_along_ratios_and_averages_over_branches() -> None:
    unsure = Ratio(10, 1000, 500, 120_000, 40_000, 52_000)
    seen = a_job({"in": 100.0}, {("in", "a"): 50.0, ("a", "b"): 25.0})
    found = find_needs(seen, {("in", "a"): unsure, ("a", "b"): unsure})
    assert found["in"].variance == 0.0
    assert found["b"].variance == pytest.approx(2 * found["a"].variance) and found["a"].variance > 0
    joined = a_job({"x": 100.0, "y": 100.0}, {("x", "j"): 50.0, ("y", "j"): 50.0})
    both = find_needs(joined, {("x", "j"): unsure, ("y", "j"): unsure})["j"]
    assert both.variance == pytest.approx(found["a"].variance / 2)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 5e-324, 1e-12, 1e-9, 1.0, 1e15]), st.floats(0, 1e15)), min_size=1, max_size=9
    )
)
@settings(deadline=None)
def test_needs_are_finite_at_the_edge_of_the_possible(evaluations: list[tuple[float, float]]) -> None:
    jobs = [a_job({"in": took}, {("in", "map"): got, ("map", "sink"): took}) for took, got in evaluations]
    for need in find_needs(jobs[-1], after(jobs)).values():
        assert 0 <= need.rate <= 1e15 and 0 <= need.variance < math.inf


def test_ratio_of_a_long_silent_edge_is_still_a_number() -> None:
    sums = Ratio().with_rates(100.0, 1.0)
    faded = Ratio(*(v * 1e-200 for v in (sums.evaluations, sums.took, sums.got, sums.took2, sums.got2, sums.cross)))
    ratio = faded.with_rates(100.0, 0.0)
    assert ratio.mean == pytest.approx(0.0) and ratio.variance == 0.0

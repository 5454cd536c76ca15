from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulation.ability import plateau, power
from benchmarks.simulation.micro_batch_truth import MicroBatchTruth
from benchmarks.simulation.pipelined_truth import PipelinedTruth
from benchmarks.simulation.scenarios import scenario
from millrace.model.objective import Bounds
from tests.benchmarks.simulation.cases import aims, case, chain, joined
from tests.examples import examples

ONES = (1.0, 1.0, 1.0)


@given(name=st.sampled_from(["paper", "dag12", "noise3", "plateau"]), run=st.integers(0, 60), seed=st.integers(0, 999))
@examples(40)
def test_minimum_of_any_case_is_enough_and_nothing_smaller_is(name: str, run: int, seed: int) -> None:
    made = scenario(name, run)
    truth = PipelinedTruth(made, seed)
    ones = (1.0,) * len(made.units)
    for rates in set(made.workload.rates):
        least = truth.minimum(rates, ones)
        assert truth.adequate(least, rates, ones)
        for i, unit in enumerate(made.units):
            need = truth.needs(rates, ones)[i]
            assert truth.ability(unit)[least[i] - 1] >= need * (1 - 1e-9)
            assert (truth.ability(unit)[: least[i] - 1] < need).all()
            if least[i] > 1:
                smaller = tuple(p - (j == i) for j, p in enumerate(least))
                assert not truth.adequate(smaller, rates, ones)


@given(run=st.integers(0, 60), seed=st.integers(0, 999))
@examples(25)
def test_minimum_of_a_micro_batch_app_is_enough_and_nothing_smaller_meets_the_objective(run: int, seed: int) -> None:
    made = scenario("paper_mb", run)
    truth = MicroBatchTruth(made, seed)
    ones = (1.0,) * len(made.shape.sizable)
    limit = made.micro_batch.batch_rows_limit
    assert limit
    for rates in set(made.workload.rates):
        (least,) = truth.minimum(rates, ones)
        assert truth.adequate((least,), rates, ones) and truth.sustains((least,), rates, ones)
        mix = {p: truth.sustained(p, rates, ones) for p in range(1, least + 1)}
        # x / (o + x / PA) = sustained, and PA >= rate / (target - rate o / x)
        enough = [1 / (1 / mix[p] - truth.fixed_s(p) / limit) for p in mix]
        wanted = [sum(rates) / (0.8 - sum(rates) * truth.fixed_s(p) / limit) for p in mix]
        assert enough[-1] >= wanted[-1] * (1 - 1e-6)
        assert all(0 < w * (1 - 1e-6) > e or w < 0 for e, w in zip(enough[:-1], wanted[:-1], strict=True))


def test_minimum_when_the_target_utilisation_is_lower_then_leaves_room() -> None:
    made = case(chain("map"), [10.0])
    full = PipelinedTruth(made, 0).minimum((1000.0,), (1.0,))
    roomy = PipelinedTruth(replace(made, objective=aims(target_utilisation=0.8)), 0).minimum((1000.0,), (1.0,))
    measured = replace(made, objective=aims(target_utilisation=0.8), reference=made.objective)
    assert (full, roomy, PipelinedTruth(measured, 0).minimum((1000.0,), (1.0,))) == ((10,), (13,), (10,))


def test_minimum_when_ability_has_drifted_then_grows() -> None:
    assert PipelinedTruth(case(chain("map"), [10.0]), 0).minimum((900.0,), (0.75,)) == (12,)


def test_needs_when_a_plateau_cannot_be_passed_then_are_its_throughput() -> None:
    made = case(
        chain("map", "flat", "sink"),
        [10.0],
        curves={"map": power(1.0), "flat": plateau(1.0, 6.0), "sink": power(1.0)},
        reach={"flat": 0.6},
    )
    truth = PipelinedTruth(made, 0)
    # at most 600 of 1000 rows pass; 95 % of that counts as all of it, and the others need no more
    assert truth.needs((1000.0,), ONES) == pytest.approx((570.0,) * 3)
    assert truth.minimum((1000.0,), ONES) == (6, 6, 6)
    assert truth.adequate((6, 6, 6), (1000.0,), ONES) and not truth.adequate((6, 5, 6), (1000.0,), ONES)
    assert not truth.sustains((90, 90, 90), (1000.0,), ONES) and truth.sustains((6, 6, 6), (600.0,), ONES)


def test_needs_when_one_branch_cannot_be_passed_then_only_its_sources_are_cut() -> None:
    made = case(joined(), [10.0], bounds=Bounds(1, 8))
    needs = dict(zip(made.units, PipelinedTruth(made, 0).needs((1000.0, 500.0, 700.0), ONES), strict=True))
    # the join reaches 1600 at 8 slots, map_a 800: a is cut at both; c is not affected
    assert needs["other"] == 700 and needs["map_a"] <= 800 and needs["join"] == pytest.approx(needs["map_a"] + 500)


def test_abilities_when_only_noise_or_execution_differs_then_depend_on_the_seed() -> None:
    made = scenario("paper", 3)
    again = PipelinedTruth(replace(made, period_s=10.0), 5)
    for unit in made.units:
        assert (PipelinedTruth(made, 5).ability(unit) == again.ability(unit)).all()
        assert not np.allclose(PipelinedTruth(made, 6).ability(unit), again.ability(unit))

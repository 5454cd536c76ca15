"""flow driving simulated jobs: what a user sees, one correction per story."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import Any

import pytest

from benchmarks.simulation.ability import plateau, power
from benchmarks.simulation.drift import Drift, Event
from benchmarks.simulation.noise import HEAVY, Noise
from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.run import Run, Step, drive
from benchmarks.simulation.scenario import Scenario
from benchmarks.simulation.scenarios import scenario
from benchmarks.simulation.score import recoveries, score
from benchmarks.simulation.workload import sliding, stepwise
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Deployment
from millrace.model.objective import Bounds, Objective
from millrace.model.protocols import Optimizer
from millrace.model.signals import Signals
from millrace.optimizers.registry import create
from tests.benchmarks.simulation.cases import case, chain, micro_batch

POWER = power(0.85)
NOISE = Noise()
LIVE = Objective(target_utilisation=0.8, max_lag_s=30.0, catch_up_s=60.0)


def tuned(made: Scenario, seed: int = 0, optimizer: Optimizer | None = None, **options: Any) -> Run:
    return drive(SimulatedPlant(made, seed), optimizer or create("flow", options), keep_signals=True)


def steps(run: Run, since: float = 0.0, until: float = 1e9) -> list[Step]:
    """Evaluations that changed something."""
    return [s for s in run.steps if s.reconfigures and since <= s.at_s < until]


def pipelined(multiples: Sequence[float], *operators: str, **changes: Any) -> Scenario:
    """A chain whose operators scale with p^0.85, ten slots for ten unit rates."""
    names = operators or ("map",)
    made = case(chain(*names), list(multiples), noise=NOISE, curves=dict.fromkeys(names, POWER))
    return replace(made, **changes)


def batches(multiples: Sequence[float], every_s: float = 300.0, **changes: Any) -> Scenario:
    """The same as an app whose batches take turns, with a live objective."""
    made = replace(micro_batch(list(multiples)), noise=NOISE, curves={"map": POWER}, objective=LIVE, period_s=15.0)
    made = replace(made, workload=stepwise((100.0,), list(multiples), every_s), bounds=Bounds(1, 64))
    return replace(made, **changes)


# ---- one step per change


@pytest.mark.parametrize(("name", "runs"), [("paper", 2), ("paper_mb", 2)])
def test_permutations_cost_about_one_reconfiguration_per_change(name: str, runs: int) -> None:
    found = [score(tuned(scenario(name, i), i)) for i in range(runs)]
    assert fmean(f["reconfigurations_per_tuning"] for f in found) <= 1.2
    assert fmean(f["bad_per_tuning"] for f in found) <= 0.1
    assert fmean(f["core_seconds_vs_oracle"] for f in found) <= 1.15
    assert max(f["non_converged"] for f in found) == 0.0


def test_dag_that_is_too_small_everywhere_is_sized_in_one_step() -> None:
    made = scenario("dag12", 0)
    run = tuned(replace(made, workload=stepwise(tuple(made.shape.units.values()), [9.0, 2.0, 3.0, 10.0])))
    first = steps(run)[0]
    assert all(after > before for before, after in zip(first.before, first.after, strict=True))
    assert len(first.after) == 12 and first.adequate
    assert len(steps(run)) <= 6 and sum(not s.adequate for s in steps(run)) <= 1


@pytest.mark.parametrize("exponent", [0.65, 0.8, 1.0])
def test_rise_of_the_load_converges_in_a_few_reconfigurations(exponent: float) -> None:
    run = tuned(pipelined([1.0, 18.0, 18.0], curves={"map": power(exponent)}))
    made = steps(run, 600.0)
    assert 1 <= len(made) <= 3
    assert steps(run, 1200.0) == []
    least = run.segments[-1].reference[0]
    assert least <= run.segments[-1].parallelism[0] <= 1.3 * least + 1


def test_rates_that_return_cost_one_good_reconfiguration_each() -> None:
    rates = [2.0, 9.0, 4.0, 7.0, 1.0, 8.0, 5.0]
    run = tuned(pipelined([*rates, *rates], "map", "sink"))
    again = steps(run, 600.0 * len(rates))
    assert len(again) <= len(rates) + 1
    assert all(s.adequate for s in again)


# ---- plateaus


@pytest.mark.parametrize("micro", [False, True])
def test_plateau_stops_within_two_useless_steps_and_reverts_them(
    micro: bool,
) -> None:
    flat = {"curves": {"map": plateau(0.85, 8.0)}, "reach": {"map": 0.6}, "bounds": Bounds(1, 64)}
    made = batches([2.0, 9.0], every_s=1200.0, **flat) if micro else pipelined([2.0, 9.0, 9.0], **flat)
    # full batches that end in reasonable time: nothing is known of a level before some have
    run = tuned(replace(made, micro_batch=replace(made.micro_batch, batch_rows_limit=4000)))
    ups = [s for s in steps(run) if s.after > s.before and s.after[0] > 9]
    assert 1 <= len(ups) <= 2
    last = steps(run)[-1]
    assert last.proposal.reason_code == "ineffective_scaling" and last.after < last.before
    assert run.steps[-1].proposal.reason_code == "ineffective_scaling"
    assert run.segments[-1].parallelism[0] < 0.8 * max(s.after[0] for s in ups)


def test_plateau_when_the_load_falls_below_it_then_is_sized_as_usual() -> None:
    run = tuned(pipelined([2.0, 9.0, 3.0], curves={"map": plateau(0.85, 8.0)}, reach={"map": 0.75}))
    assert run.segments[-1].adequate
    assert run.segments[-1].parallelism[0] <= run.segments[-1].reference[0] + 1


def test_plateau_that_bends_the_curve_early_is_no_drift() -> None:
    run = tuned(scenario("plateau", 0))
    for begin in run.scenario.workload.tunings[1:]:
        assert len(steps(run, begin, begin + 600)) <= 3
    assert score(run)["bad_per_tuning"] <= 0.15


# ---- drift


@pytest.mark.parametrize("micro", [False, True])
def test_drift_by_a_quarter_is_recovered_in_two_steps_at_most(micro: bool) -> None:
    event = Drift((Event(910.0),))
    made = batches([6.0], every_s=1800.0, drift=event) if micro else pipelined([6.0] * 3, "map", "sink", drift=event)
    run = tuned(made)
    assert 1 <= recoveries(run)[0] <= 2
    assert run.segments[-1].adequate


def test_drift_without_rescaled_history_takes_many_steps() -> None:
    made = pipelined([6.0] * 3, "map", "sink", drift=Drift((Event(910.0),)))
    with_it, without = (recoveries(tuned(made, drift=on))[0] for on in (True, False))
    assert without > 2 * with_it


class Spoilt:
    """flow, misled in one evaluation about the ability of an operator."""

    def __init__(self, evaluation: int, factor: float) -> None:
        self.flow, self.evaluation, self.factor = create("flow", {}), evaluation, factor

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        told = self._spoilt(signals)
        return self.flow.propose(told, current, memory)

    def _spoilt(self, signals: Signals) -> Signals:
        app = signals.apps[0]
        operators = [
            replace(o, throughput=o.throughput * self.factor)
            if o.throughput and signals.telemetry_version == self.evaluation
            else o
            for o in app.operators
        ]
        at = self.evaluation * 30.0
        begun = signals.since.timestamp() - (signals.telemetry_version - 1) * 30.0
        observations = [
            replace(o, throughput=o.throughput * self.factor) if o.time.timestamp() - begun == at else o
            for o in signals.observations
        ]
        return replace(signals, apps=(replace(app, operators=tuple(operators)),), observations=tuple(observations))


@pytest.mark.parametrize("factor", [0.4, 2.5])
def test_outlier_in_one_evaluation_changes_nothing_then_or_later(factor: float) -> None:
    made = pipelined([6.0, 6.0, 9.0, 2.0], "map", "sink")
    plain = tuned(made)
    assert len(plain.steps) > 35 and not steps(plain, 600.0, 1200.0)
    spoilt = tuned(made, optimizer=Spoilt(30, factor))
    assert [s.at_s for s in steps(spoilt)] == [s.at_s for s in steps(plain)]
    seen = plain.steps[29].signals
    assert seen is not None and Spoilt(30, factor)._spoilt(seen) != seen, "it did lie"


def test_heavy_tailed_noise_leaves_a_steady_load_where_it_is() -> None:
    run = tuned(pipelined([6.0] * 8, "map", "sink", noise=Noise(kind=HEAVY, sd=0.04)))
    assert len(steps(run, 600.0)) <= 1


# ---- rates that move


def wandering(seed: int, **changes: Any) -> Scenario:
    rng = random.Random(seed)
    rates = [24 * (1 + rng.gauss(0, 0.05)) for _ in range(60)]
    made = case(chain("map"), sliding((100.0,), rates, 90.0), noise=NOISE, curves={"map": POWER})
    return replace(made, **changes)


@pytest.mark.parametrize("seed", [1, 2])
def test_wandering_rate_is_not_followed(seed: int) -> None:
    run, following = tuned(wandering(seed)), tuned(wandering(seed), fluctuation=False)
    assert len(steps(run, 1800.0)) <= 2 < 8 <= len(steps(following, 1800.0))
    assert score(run)["core_seconds_vs_oracle"] <= 1.25
    assert score(run)["throttled_ratio"] < score(following)["throttled_ratio"]


def test_steady_rise_is_met_early_by_proactive_steps() -> None:
    rates = [5.0 * 1.02**i for i in range(70)]
    made = case(chain("map"), sliding((100.0,), rates, 60.0), noise=NOISE, curves={"map": POWER})
    reactive, proactive = (score(tuned(made, proactive=on)) for on in (False, True))
    assert proactive["throttled_ratio"] < 0.7 * reactive["throttled_ratio"]
    assert proactive["reconfigurations_per_tuning"] < reactive["reconfigurations_per_tuning"]
    assert proactive["core_seconds_vs_oracle"] <= 1.3


def test_bursts_of_windows_do_not_resize_what_follows_them() -> None:
    runs = [tuned(scenario("window_noise", i), i) for i in range(2)]
    assert fmean(score(r)["reconfigurations_per_tuning"] for r in runs) <= 1.4
    assert fmean(score(r)["bad_per_tuning"] for r in runs) <= 0.3


# ---- micro-batches


def test_day_scales_up_and_down_without_oscillation() -> None:
    run = tuned(batches([1.0, 7.0, 7.0, 2.5, 0.05, 0.05]))
    moves = [s.after[0] - s.before[0] for s in steps(run)]
    assert len(moves) <= 5 and moves[0] > 0
    signs = [m > 0 for m in moves]
    assert sum(a != b for a, b in pairwise(signs)) == 1
    assert run.segments[-1].parallelism == (1,)
    assert all(s.adequate for s in steps(run))


def test_backlog_is_drained_in_time_and_slots_stay_until_it_is() -> None:
    made = batches([1.0, 6.0, 0.5], downtime_s=60.0)
    made = replace(made, micro_batch=replace(made.micro_batch, batch_rows_limit=5000))
    run = tuned(made)
    waiting = [s for s in run.steps if s.proposal.reason_code == "draining"]
    assert waiting and not any(s.reconfigures for s in waiting)
    lag = [s.signals.apps[0].restart_lag_rows or 0 for s in run.steps if s.signals]
    backlog = [s.signals.apps[0].backlog_rows or 0 for s in run.steps if s.signals]
    assert max(lag) > 10_000 and backlog[-1] < 500


def test_slow_restart_never_leads_to_another_step_up() -> None:
    run = tuned(batches([1.0, 5.0, 5.0, 5.0], downtime_s=60.0))
    assert sum(s.after > s.before for s in steps(run)) == 1
    assert len(steps(run)) <= 2


def test_source_with_few_splits_keeps_slots_and_says_why() -> None:
    made = batches([6.0], every_s=900.0, start_p=4)
    run = tuned(replace(made, micro_batch=replace(made.micro_batch, source_splits=2)))
    assert steps(run) == []
    assert run.steps[-1].proposal.reason_code == "source_splits"


# ---- all of them


@pytest.mark.parametrize("name", ["q3", "micro_batch"])
def test_run_when_repeated_then_is_the_same_to_the_last_word(name: str) -> None:
    made = batches([2.0, 8.0]) if name == "micro_batch" else pipelined([2.0, 8.0, 3.0], "map", "sink")
    first, second = tuned(made), tuned(made)
    assert [s.proposal for s in first.steps] == [s.proposal for s in second.steps]

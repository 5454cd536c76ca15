from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise

import pytest

from benchmarks.simulation.oracle import Oracle
from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.run import Run, drive
from benchmarks.simulation.scenarios import LIVE, names, scenario
from benchmarks.simulation.score import recoveries, score
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Change, Deployment
from millrace.model.signals import Signals
from tests.benchmarks.simulation.cases import Scripted, case, chain

RECORDED = [10.0, 12.0, 9.0, 11.0, 10.0, 20.0, 8.0, 9.0, 10.0, 11.0, 15.0, 14.0]


def oracles(name: str, run: int, phase_s: float = 0.0) -> Run:
    cold = replace(scenario(name, run, RECORDED, phase_s), start_p=1)
    plant = SimulatedPlant(cold, run)
    return drive(plant, Oracle(plant))


@pytest.mark.parametrize("name", [n for n in names() if not n.startswith(("diurnal", "paper_warm"))])
def test_oracle_when_it_drives_then_is_never_bad_and_costs_the_least(name: str) -> None:
    for run in range(2):
        driven = oracles(name, run)
        figures = score(driven)
        assert figures["bad_per_tuning"] == 0 and figures["non_converged"] == 0
        # executors that have not arrived are not paid for
        late = 0.1 if name.endswith(LIVE) else 0.05
        assert figures["core_seconds_vs_oracle"] == pytest.approx(1.0, abs=late)
        assert figures["peak_vs_oracle"] <= 1.0
        for step in driven.steps:
            assert not step.refused and step.adequate


@pytest.mark.parametrize("name", ["paper", "dag12", "paper_mb"])
def test_oracle_when_rates_are_a_permutation_then_reconfigures_once_per_change(name: str) -> None:
    figures = score(oracles(name, 2))
    assert figures["reconfigurations_per_tuning"] == 1.0
    assert figures["reconfigurations_up"] + figures["reconfigurations_down"] == 1.0


def test_oracle_when_changes_fall_within_an_evaluation_then_is_still_never_bad() -> None:
    figures = score(oracles("paper", 1, phase_s=13.0))
    assert figures["bad_per_tuning"] == 0 and figures["non_converged"] == 0
    assert figures["reconfigurations_per_tuning"] == 1.0


def test_run_when_driven_twice_then_is_the_same() -> None:
    first, second = oracles("drift", 4), oracles("drift", 4)
    assert first.segments == second.segments
    assert [s.after for s in first.steps] == [s.after for s in second.steps]


def test_run_when_driven_then_segments_cover_it_without_gaps() -> None:
    for name in ("paper", "paper_mb"):
        segments = oracles(name, 0).segments
        assert segments[0].since == 0 and segments[-1].until == 12_000
        for a, b in pairwise(segments):
            assert a.until == b.since
            # a batch that ends is gone at once; the rows of an interrupted batch wait again
            assert b.before[0] == pytest.approx(a.after[0]) or b.before[0] == pytest.approx(a.after[0] - a.batch_rows)


def test_run_when_sent_to_another_process_then_arrives_whole() -> None:
    driven = oracles("plateau", 1)
    again = pickle.loads(pickle.dumps(driven))
    assert score(again) == score(driven)


class Stubborn:
    """Asks for the impossible: another app, another field, out of bounds, a wrong value before; and for 5."""

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        changes = (
            Change("other", "parallelism", 1, 2, "map"),
            Change("chain", "memory_mb", 1024, 2048),
            Change("chain", "slots", 2, 4),
            Change("chain", "parallelism", 1, 91, "map"),
            Change("chain", "parallelism", 7, 8, "map"),
            Change("chain", "parallelism", 1, 8, "nobody"),
            Change("chain", "parallelism", 1, 5, "sink"),
        )
        return Proposal("stubborn", changes, "stubborn", "No."), {"looks": memory.get("looks", 0) + 1}


def test_changes_that_cannot_be_made_are_refused_and_the_others_are_made() -> None:
    plant = SimulatedPlant(case(chain("map", "sink"), [2.0]), 0)
    driven = drive(plant, Stubborn())
    first = driven.steps[0]
    assert (first.before, first.after) == ((1, 1), (1, 5)) and len(first.refused) == 6 and first.reconfigures
    assert all(len(step.refused) == 7 and not step.reconfigures for step in driven.steps[1:])


def test_step_records_when_it_ended_and_whether_it_was_enough() -> None:
    plant = SimulatedPlant(case(chain("map"), [5.0, 5.0]), 0)
    driven = drive(plant, Scripted({2: (4,), 5: (6,)}, plant))
    made = [s for s in driven.steps if s.reconfigures]
    assert [(s.at_s, s.ended_s, s.after, s.adequate) for s in made] == [
        (60.0, 70.0, (4,), False),
        (150.0, 160.0, (6,), True),
    ]
    assert all(step.signals is None for step in driven.steps)


def test_signals_when_kept_then_cover_each_evaluation() -> None:
    plant = SimulatedPlant(case(chain("map"), [5.0]), 0)
    driven = drive(plant, Scripted({}, plant), keep_signals=True)
    assert len(driven.steps) == 20 and all(s.signals and s.signals.apps for s in driven.steps)


def test_last_evaluation_when_the_workload_has_ended_then_changes_nothing() -> None:
    plant = SimulatedPlant(case(chain("map"), [5.0]), 0)
    driven = drive(plant, Scripted({20: (9,)}, plant))
    assert driven.steps[-1].at_s == 600 and not driven.steps[-1].reconfigures


def test_drift_when_it_comes_then_the_oracle_recovers_in_one_step() -> None:
    found = [r for run in range(6) for r in recoveries(oracles("drift", run))]
    assert found and max(found) == 1
    made = scenario("drift", 1)
    plant = SimulatedPlant(replace(made, start_p=60), 1)
    assert recoveries(drive(plant, Scripted({}, plant))) in ((0,), ())

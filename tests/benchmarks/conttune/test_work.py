from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.conttune.bench import failures, measured
from benchmarks.conttune.cases import Case, made
from benchmarks.conttune.methods import METHODS, family, room
from benchmarks.conttune.summary import against_oracle, by_method, records, worst
from benchmarks.conttune.work import Job, Outcome, execute, outcomes
from benchmarks.simulation.plant import SimulatedPlant


def test_execute_when_the_oracle_drives_then_nothing_is_bad_and_each_load_change_costs_one_reconfiguration() -> None:
    outcome = execute(Job("paper", "oracle", 0))
    assert outcome.error is None and set(outcome.figures) == {"paper", "paper_warm"}
    for figures in outcome.figures.values():
        assert figures["bad_per_tuning"] == 0
        assert figures["reconfigurations_per_tuning"] == pytest.approx(1.0, abs=0.1)
        assert figures["core_seconds_vs_oracle"] == pytest.approx(1.0, abs=0.02)


def test_execute_when_repeated_then_only_the_times_differ() -> None:
    job = Job("noise3", "ds2_stop", 3)
    first, second = (execute(job).figures["noise3"] for _ in range(2))
    assert {k: v for k, v in first.items() if "_ms" not in k} == {k: v for k, v in second.items() if "_ms" not in k}


@pytest.mark.parametrize(
    ("scenario", "figure"), [("drift", "reconfigurations_to_recover"), ("plateau", "ineffective_steps")]
)
def test_execute_when_a_scenario_has_an_episode_then_it_is_scored(scenario: str, figure: str) -> None:
    assert figure in execute(Job(scenario, "oracle", 0)).figures[scenario]
    assert figure not in execute(Job("paper", "oracle", 0)).figures["paper"]


def test_execute_when_a_method_fails_then_reports_it_and_others_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plant: SimulatedPlant) -> object:
        raise ValueError("no such\nthing")

    monkeypatch.setitem(METHODS, "flow", METHODS["flow"].__class__("flow", broken))  # type: ignore[arg-type]
    found = measured([Case("paper_mb", ("oracle", "flow"), 2)], workers=0)
    assert failures(found) == ["paper_mb, flow: 2 runs failed: ValueError: no such thing"]
    assert {method for _, method in by_method(found)} == {"oracle"}


def test_outcomes_when_done_by_workers_then_match_this_process_in_order() -> None:
    wanted = [Job("paper_mb", "oracle", run) for run in (2, 0, 1)]
    figures = [{k: {n: v for n, v in f.items() if "_ms" not in n} for k, f in o.figures.items()}
               for o in outcomes(wanted, 2)]  # fmt: skip
    here = [{k: {n: v for n, v in f.items() if "_ms" not in n} for k, f in o.figures.items()}
            for o in outcomes(wanted, 0)]  # fmt: skip
    assert figures == here


PARENT = """
import multiprocessing, sys
from benchmarks.conttune.work import Job, outcomes
if __name__ == "__main__":
    stream = outcomes([Job("paper_mb", "oracle", 0)] * 2_000, 1)
    next(stream)
    print(multiprocessing.active_children()[0].pid, flush=True)
    for _ in stream:
        pass
"""


def test_outcomes_when_the_calling_process_is_killed_then_its_workers_end(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    argv = [sys.executable, str(tmp_path / "parent.py")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    _, alive = psutil.wait_procs([worker], timeout=600)
    for process in alive:
        process.kill()
    assert not alive


def outcome(method: str, run: int, **figures: float) -> Outcome:
    return Outcome(Job("plateau", method, run), {"plateau": figures})


RUNS = by_method(
    [
        outcome("flow", 1, throttled_ratio=0.25, ineffective_steps=3.0),
        outcome("flow", 0, throttled_ratio=0.15, ineffective_steps=1.0),
        outcome("oracle", 0, throttled_ratio=0.3, ineffective_steps=0.0),
        outcome("oracle", 1, throttled_ratio=0.5, ineffective_steps=0.0),
    ]
)


def test_records_when_summed_up_then_are_means_over_runs() -> None:
    found = {(r.method, r.figure): r for r in records(RUNS)}
    assert set(found) == {(m, f) for m in ("flow", "oracle") for f in ("throttled_ratio", "ineffective_steps")}
    assert found["flow", "throttled_ratio"].value == pytest.approx(0.2) and found["flow", "throttled_ratio"].n == 2


def test_worst_when_asked_for_then_is_the_highest_of_all_runs() -> None:
    assert [(r.method, r.figure, r.value) for r in worst(RUNS, "ineffective_steps")] == [
        ("flow", "ineffective_steps_worst", 3.0),
        ("oracle", "ineffective_steps_worst", 0.0),
    ]


def test_against_oracle_when_both_ran_then_is_the_ratio_of_means() -> None:
    (found,) = against_oracle(RUNS, "plateau", "flow", "throttled_ratio")
    assert found.figure == "throttled_ratio_vs_reactive_oracle" and found.value == pytest.approx(0.5)
    assert (found.low, found.high) == pytest.approx((0.5, 0.5))  # run by run, in any order
    assert not against_oracle(RUNS, "plateau", "flow_proactive", "throttled_ratio")


@pytest.mark.parametrize("name", [m for m in METHODS if not m.startswith("flink")])
@pytest.mark.parametrize("scenario", ["paper", "paper_mb"])
def test_methods_when_made_then_can_evaluate_once(name: str, scenario: str) -> None:
    from millrace.model.protocols import Cursor

    plant = SimulatedPlant(made(scenario, 1), 1)
    proposal, _ = METHODS[name].make(plant).propose(plant.observe(Cursor()), plant.deployment, {})
    assert proposal.reason_code not in ("bad_signals", "no_signals")


@pytest.mark.parametrize(
    ("name", "tuner", "told"),
    [
        ("flow", "flow", ""),
        ("flow_r05", "flow", "-05 %"),
        ("ds2", "DS2", ""),
        ("ds2_stop_f20", "DS2", "+20 %"),
        ("flink_0.9_0.2", "Flink", "0.9/0.2"),
        ("conttune_strong_h10", "ContTune", "+10 %"),
        ("dhalion", None, ""),
    ],
)
def test_family_and_room_when_named_then_are_readable(name: str, tuner: str | None, told: str) -> None:
    assert (family(name), room(name)) == (tuner, told)

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.conttune.bench import report
from benchmarks.conttune.cases import made
from benchmarks.conttune.choices import EXPLOITED, EXPLORED, Watched
from benchmarks.conttune.frontier import compared
from benchmarks.conttune.pictures.frontiers import frontiers
from benchmarks.conttune.pictures.trajectory import trajectory
from benchmarks.conttune.targets import TARGETS
from benchmarks.record import Record
from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.run import drive
from benchmarks.targets import judged
from millrace_rivals.conttune.options import ContTuneOptions
from millrace_rivals.conttune.tuner import ContTune

POINTS = {
    "flow": (1.03, 1.04, 0.01),
    "flow_r10": (1.2, 0.8, 0.0),
    "flink_0.7_0.3": (1.5, 0.9, 0.001),
    "ds2_stop": (1.01, 1.6, 0.6),
}


def measured(*scenarios: str) -> list[Record]:
    names = ("core_seconds_vs_oracle", "reconfigurations_per_tuning", "bad_per_tuning")
    found = [
        Record("conttune", scenario, method, figure, value, "", low=value - 0.01, high=value + 0.01, n=3)
        for scenario in scenarios
        for method, values in POINTS.items()
        for figure, value in zip(names, values, strict=True)
    ]
    return judged([*found, *(r for scenario in scenarios for r in compared(found, scenario))], TARGETS)


def test_frontiers_when_scenarios_were_measured_then_has_a_column_each_and_a_line_per_tuner() -> None:
    figure = frontiers(measured("paper", "dag12"), ("paper", "noise3", "dag12"))
    assert figure is not None
    assert [axes.get_title() for axes in figure.axes[:2]] == ["paper", "dag12"]
    lines = {str(line.get_label()): list(line.get_xdata()) for line in figure.axes[0].get_lines()}  # type: ignore[arg-type]
    assert lines == {"flow": [1.03, 1.2], "Flink": [1.5], "DS2": [1.01]}


def test_frontiers_when_nothing_was_measured_then_there_is_no_picture() -> None:
    assert frontiers([], ("paper",)) is None


def test_trajectory_when_drawn_then_shows_each_methods_reconfigurations() -> None:
    figure = trajectory("paper", 1, ("oracle", "ds2"))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[0] == "oracle: 20 reconfigurations, 0 of them bad" and titles[1].startswith("ds2: ")


@pytest.mark.parametrize(("alpha", "scenario"), [(3.0, "paper"), (0.0, "paper_mb")])
def test_watched_when_the_small_phase_chooses_then_notes_the_choice_and_changes_nothing(
    alpha: float, scenario: str
) -> None:
    tuner = ContTune(
        ContTuneOptions.read({"alpha": alpha, "core_min_thr": 0.85, "core_max_thr": 0.95, "surrogate": "rbf_white"})
    )
    watched = Watched(tuner)
    plain = drive(SimulatedPlant(made(scenario, 1), 1), tuner)
    run = drive(SimulatedPlant(made(scenario, 1), 1), watched)
    assert [s.after for s in run.steps] == [s.after for s in plain.steps]
    small = [s for s in run.steps if s.proposal.changes and s.proposal.reason_code != "binary_lifting"]
    assert [at for at, _ in watched.choices] == pytest.approx([s.at_s for s in small]) and small
    bounds = run.scenario.bounds
    for step, (_, suggested) in zip(small, watched.choices, strict=True):
        chosen = {c.operator: c.value for c in step.proposal.changes}
        assert {o: min(bounds.max_slots, s.parallelism) for o, s in suggested.items()} == chosen


def test_watched_when_the_model_is_trusted_further_then_explores_less() -> None:
    shares = []
    for alpha in (0.0, 3.0):
        watched = Watched(ContTune(ContTuneOptions.read({"alpha": alpha, "core_min_thr": 0.85, "core_max_thr": 0.95})))
        drive(SimulatedPlant(made("paper_mb", 1), 1), watched)
        found = [s.means for _, suggested in watched.choices for s in suggested.values()]
        assert set(found) <= {EXPLORED, EXPLOITED}
        shares.append(found.count(EXPLORED) / len(found))
    assert shares[0] > shares[1]


def test_report_when_laid_out_then_shows_tables_targets_and_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    console = Console(record=True, width=120)
    console.print(report(measured("dag12")))
    told = console.export_text()
    assert "dag12 (3 runs)" in told and "1.04 ±.01" in told
    assert "Targets: 4 of 4 hold" in told and "frontier.png" in told
    assert (tmp_path / "reports" / "conttune" / "frontier.png").read_bytes().startswith(b"\x89PNG")

"""The live view: its data, and its appearance with and without a terminal."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from millrace.lake.control_tables import ControlTables
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.local.demo.live_stats import LiveStats, LiveStatsReader
from millrace.local.demo.terminal import View, line
from millrace.model.decision import Outcome
from millrace.run_folder import driver_records
from millrace.run_folder.driver_records import DriverRecord, DriverState
from tests.include.local.demo.synthetic import Run, at

STATS = LiveStats(183.4, 5000, 3760, 4, None, 200.0, None)


def _reader(run: Run, run_dir: Path, seconds: list[float]) -> LiveStatsReader:
    return LiveStatsReader(run.spec, ControlTables(run.lake), run_dir, run.source, at(0), clock=lambda: seconds.pop(0))


def _driver(generation: int, slots: int, state: DriverState) -> DriverRecord:
    return DriverRecord("delays", "delays", generation, generation, slots, 1, 0.0, state, at(0))


def test_read_follows_rate_and_backlog(run: Run, tmp_path: Path) -> None:
    reader = _reader(run, tmp_path, [0.0, 2.0, 4.0, 20.0])
    run.launch(0, 4, 2)
    assert reader.read().event_rows_per_s == 0
    run.arrive(1, 100)
    run.arrive(2, 100)
    assert reader.read().event_rows_per_s == 100
    run.batch(3, 150, 2)
    stats = reader.read()
    assert (stats.arrived, stats.processed, stats.backlog, stats.event_rows_per_s) == (200, 150, 50, 50)
    assert reader.read().event_rows_per_s == 0, "old rows have left the window"


def test_read_when_a_successor_waits_then_shows_both_drivers(run: Run, tmp_path: Path) -> None:
    for record in (
        _driver(1, 1, DriverState.STOPPED),
        _driver(2, 2, DriverState.RUNNING),
        _driver(3, 5, DriverState.WAITING),
    ):
        driver_records.write(tmp_path, record)
    stats = _reader(run, tmp_path, [0.0]).read()
    assert (stats.slots, stats.starting) == (2, 5)


def test_read_when_circuit_opened_then_says_why(run: Run, tmp_path: Path) -> None:
    run.launch(0, 4, 1)
    newest = ReconfigurationStore(run.lake).recent("delays")[0]
    broken = replace(newest, started=at(10), ended=at(11), outcome=Outcome.CIRCUIT_OPEN, error="ImportError: no x")
    ReconfigurationStore(run.lake).record(broken)
    assert _reader(run, tmp_path, [0.0]).read().circuit_open == "ImportError: no x"


@pytest.mark.parametrize(("outcome", "changing"), [(Outcome.OPEN, True), (Outcome.READY, False)])
def test_read_when_a_change_is_in_progress_then_says_so(
    run: Run, tmp_path: Path, outcome: Outcome, changing: bool
) -> None:
    run.launch(0, 4, 1)
    newest = ReconfigurationStore(run.lake).recent("delays")[0]
    ReconfigurationStore(run.lake).record(replace(newest, started=at(10), ended=at(11), outcome=outcome))
    assert _reader(run, tmp_path, [0.0]).read().changing is changing


def test_new_decisions_come_once_and_in_order(run: Run, tmp_path: Path) -> None:
    reader = _reader(run, tmp_path, [0.0])
    run.launch(0, 4, 2)
    run.evaluate(-10, 1, None, "before the demo")
    for time_s, sentence in ((10, "first"), (20, "second")):
        run.evaluate(time_s, 1, None, sentence)
    assert [d.sentence for d in reader.new_decisions()] == ["first", "second"]
    run.evaluate(30, 1, None, "third")
    assert [d.sentence for d in reader.new_decisions()] == ["third"]


def test_sustainable_throughput_is_that_of_the_serving_slots(run: Run, tmp_path: Path) -> None:
    reader = _reader(run, tmp_path, [0.0, 1.0, 2.0])
    run.launch(0, 4, 1)
    driver_records.write(tmp_path, _driver(1, 1, DriverState.RUNNING))
    run.evaluate(10, 1, None, "measured at one slot")
    reader.new_decisions()
    assert reader.read().sustainable_rows_per_s == pytest.approx(50 * 14 / 15)
    driver_records.write(tmp_path, _driver(1, 4, DriverState.RUNNING))
    assert reader.read().sustainable_rows_per_s is None


def _console(*, terminal: bool, width: int = 100) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None)


def _text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_view_on_a_terminal_shows_all_figures_and_sentences(run: Run) -> None:
    run.launch(0, 4, 1)
    decision = run.evaluate(10, 150, 4, "150 rows/s need 4 slots.")
    console = _console(terminal=True)
    view = View(("delays",), console)
    view.stats(STATS, 14.5)
    view.decision(decision)
    view.still()
    plain = _console(terminal=False)
    plain.print(view.render())
    shown = _text(plain)
    for text in ("183 rows/s", "200 rows/s", "4 slots", "1,240 rows", "14:30", "1 → 4", "150 rows/s need 4 slots."):
        assert text in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_view_without_a_terminal_prints_one_line_at_a_time(run: Run) -> None:
    run.launch(0, 4, 1)
    decision = run.evaluate(10, 150, 4, "150 rows/s need 4 slots.")
    console = _console(terminal=False)
    with View(("delays",), console) as view:
        view.step("Starting")
        for _ in range(5):
            view.stats(STATS, 14.5)
        view.decision(decision)
    lines = _text(console).splitlines()
    assert len(lines) == 3, "five pulses within five seconds make one line"
    assert "flights of 14:30: 183 rows/s, backlog 1,240 rows, 4 slots" in lines[1]
    assert "150 rows/s need 4 slots." in lines[2]


def test_line_when_successor_starts_and_feed_is_done_then_says_so() -> None:
    told = line(replace(STATS, starting=8, sustainable_rows_per_s=None), None)
    assert told == "feed done: 183 rows/s, backlog 1,240 rows, 4 slots (→ 8)"

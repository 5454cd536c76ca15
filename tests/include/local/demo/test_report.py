"""Timeline, figures, checks and report of runs with known results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from millrace.lake.control_tables import ControlTables
from millrace.local.demo.checks import checks, passed, steps
from millrace.local.demo.comparison import Comparison
from millrace.local.demo.figures import figures, restarts_saved
from millrace.local.demo.labels import slots_of
from millrace.local.demo.report import page
from millrace.local.demo.timeline import Timeline, read_timeline
from tests.include.local.demo.synthetic import Run, at, simulate
from tests.optimizers.albic.partition_loads import groups

EQUAL = Comparison(rows=11, closed_rows=10, groups=5, lost=0, doubled=0, foreign=0, differing=0)


def _timeline(run: Run, end_s: float) -> Timeline:
    return read_timeline(run.spec, ControlTables(run.lake), run.source, at(end_s))


def _day() -> list[float]:
    """A day in four minutes: night, morning, noon, afternoon, evening."""
    return [0.0] * 10 + [5.0] * 20 + [180.0] * 60 + [100.0] * 40 + [200.0] * 50 + [20.0] * 60


def test_timeline_slots_change_when_the_successor_is_ready(run: Run) -> None:
    run.launch(0, 5, 1)
    evaluation = run.evaluate(20, 100, 3, "more")
    run.launch(21, 30, 3, evaluation)
    run.stop(50, 52)
    line = _timeline(run, 60)
    assert line.slots(np.array([2.0, 6.0, 29.0, 31.0, 51.0, 55.0])).tolist() == [0, 1, 1, 3, 3, 0]
    assert [(s.start_s, s.end_s, s.slots) for s in line.spans] == [(0, 30, 1), (21, 52, 3)]


def test_timeline_counts_executors_until_they_end(run: Run) -> None:
    run.launch(0, 5, 1)
    run.resize(20, 24, 3, run.evaluate(20, 100, 3, "more"))
    run.resize(40, 46, 2, run.evaluate(40, 10, 2, "less"))
    line = _timeline(run, 60)
    assert [(s.start_s, s.end_s, s.slots) for s in line.spans] == [(0, 24, 1), (20, 46, 3), (46, 60, 2)]
    assert line.slots(np.array([19.0, 23.0, 25.0, 45.0, 47.0])).tolist() == [1, 1, 3, 3, 2]
    assert figures(run.spec, line).core_s == pytest.approx(24 + 3 * 26 + 2 * 14)
    assert [(a.slots, b.slots) for a, b in steps(line)] == [(1, 3), (3, 2)]


def test_growth_is_compared_with_the_first_start(run: Run) -> None:
    run.launch(0, 14, 1)
    assert restarts_saved(figures(run.spec, _timeline(run, 50))) == ""
    run.resize(20, 23, 3, run.evaluate(19, 20.0, 3, "more"))
    run.resize(40, 45, 2, run.evaluate(39, 5.0, 2, "less"))
    sentence = restarts_saved(figures(run.spec, _timeline(run, 60)))
    assert "New executors were ready after 3.0 s (at most 3.0 s)" in sentence
    assert sentence.endswith("about 14 s, as the first start did.")


def test_timeline_counts_no_core_seconds_after_its_end(run: Run) -> None:
    run.launch(0, 5, 2)
    evaluation = run.evaluate(60, 0, 1, "quiet")
    run.launch(61, 70, 1, evaluation)
    run.stop(80, 82)
    line = _timeline(run, 50)
    assert [(s.start_s, s.end_s, s.slots) for s in line.spans] == [(0, 50, 2)]
    assert figures(run.spec, line).core_s == pytest.approx(100)
    assert [e.time_s for e in line.evaluations] == [60], "what was decided afterwards is told all the same"


def test_timeline_knows_the_age_of_the_oldest_waiting_row(run: Run) -> None:
    run.launch(0, 1, 1)
    run.arrive(10, 100)
    run.arrive(20, 50)
    run.batch(35, 100, 5)
    run.batch(40, 50, 5)
    line = _timeline(run, 50)
    times = np.array([5.0, 10.0, 15.0, 34.9, 35.0, 39.9, 40.0, 49.0])
    assert line.oldest_waiting_s(times).tolist() == pytest.approx([0, 0, 5, 24.9, 15, 19.9, 0, 0], abs=0.01)


def test_timeline_when_a_batch_is_reported_twice_then_counts_its_rows_once(run: Run) -> None:
    run.launch(0, 1, 1)
    run.arrive(5, 100)
    run.batch(8, 100, 3)
    run.batches -= 1  # the same batch id again, repeated by a driver that was killed after its flush
    run.batch(9, 100, 3)
    assert _timeline(run, 10).processed(np.array([10.0])).tolist() == [100]


def test_timeline_when_a_marker_follows_a_batch_then_still_counts_its_rows(run: Run) -> None:
    run.launch(0, 1, 1)
    run.arrive(5, 100)
    run.batch(8, 100, 3)
    run.batches -= 1
    run.batch(20, 0, 0)
    assert _timeline(run, 30).processed(np.array([30.0])).tolist() == [100]


def test_timeline_of_nothing_is_empty_and_its_figures_are_zero(run: Run) -> None:
    line = _timeline(run, 10)
    assert line.length_s == 0
    found = figures(run.spec, line)
    assert (found.rows, found.core_s, found.reconfigurations, found.time_behind_s) == (0, 0, 0, 0)
    assert not passed(checks(line, None))
    assert "None." in page(run.spec, line, found, checks(line, None))


def test_figures_of_a_known_run_are_exact(run: Run) -> None:
    run.launch(0, 4, 1)
    evaluation = run.evaluate(20, 100, 3, "more", measured=True)
    run.launch(20, 30, 3, evaluation)
    run.arrive(40, 1000)
    run.batch(60, 1000, 20)  # the goal is 15 s: 5 s behind
    run.stop(98, 100)
    found = figures(run.spec, _timeline(run, 100))
    assert found.core_s == pytest.approx(1 * 30 + 3 * 80), "both count during the hand-over"
    assert (found.reconfigurations, found.downtime_s, found.longest_downtime_s) == (1, 5, 5)
    assert found.time_behind_s == pytest.approx(5, abs=0.5)
    assert found.worst_lag_s == pytest.approx(20, abs=0.5)
    assert (found.slots_least, found.slots_most) == (1, 3)
    assert found.fixed_core_s == pytest.approx(found.fixed.slots * 100)


def test_slots_of_a_change_are_those_it_replaces_even_if_fewer_ran(run: Run) -> None:
    run.launch(0, 4, 4)
    decision = run.evaluate(12, 300, 8, "A growth to 4 slots is not complete.")
    assert decision.signals is not None
    apps = tuple(replace(app, slots=2) for app in decision.signals.apps)
    assert slots_of(replace(decision, signals=replace(decision.signals, apps=apps)), "delays") == (4, 8)


def test_checks_when_a_day_was_served_then_all_hold(run: Run) -> None:
    line = _timeline(run, simulate(run, _day()))
    assert {b.slots > a.slots for a, b in steps(line)} == {True, False}
    made = checks(line, EQUAL)
    assert passed(made), made


def test_checks_when_it_only_grew_then_down_fails(run: Run) -> None:
    line = _timeline(run, simulate(run, [5.0] * 20 + [180.0] * 60))
    assert [c.held for c in checks(line, EQUAL)] == [True, False, True, True, True]


def test_checks_when_down_came_before_up_then_both_hold(run: Run) -> None:
    run.launch(0, 4, 3)
    run.launch(20, 24, 1, run.evaluate(19, 5, 1, "less"))
    run.launch(40, 44, 4, run.evaluate(39, 150, 4, "more"))
    run.arrive(45, 10)
    run.batch(50, 10, 1)
    assert passed(checks(_timeline(run, 60), EQUAL))


def test_checks_when_a_person_scaled_then_automatic_fails(run: Run) -> None:
    run.launch(0, 4, 1)
    run.launch(20, 24, 4)  # no decision behind it
    run.launch(40, 44, 1)
    held = [c.held for c in checks(_timeline(run, 60), EQUAL)]
    assert held[1:3] == [False, False]


def test_checks_when_rows_still_wait_then_catching_up_fails_with_the_number(run: Run) -> None:
    run.launch(0, 4, 1)
    run.arrive(10, 1500)
    run.batch(20, 400, 5)
    caught_up = checks(_timeline(run, 30), EQUAL)[3]
    assert not caught_up.held
    assert "1,100 of 1,500" in caught_up.detail


def test_checks_when_ended_early_then_says_why(run: Run) -> None:
    first = checks(_timeline(run, 10), None, "the job does not start any more")[0]
    assert (first.held, first.detail) == (False, "the job does not start any more")


@pytest.mark.parametrize("flaw", ["lost", "doubled", "foreign", "differing"])
def test_checks_when_results_differ_then_fails_and_reports_the_count(run: Run, flaw: str) -> None:
    unequal = Comparison(**{**EQUAL.__dict__, flaw: 3, "example": "missing: {}"})
    last = checks(_timeline(run, 10), unequal)[-1]
    assert not last.held
    assert "3" in last.detail


def test_page_escapes_each_sentence_and_needs_no_network(run: Run) -> None:
    run.launch(0, 4, 1)
    run.launch(20, 25, 4, run.evaluate(19, 150, 4, "<b>150 rows/s</b> & more"))
    run.arrive(30, 10)
    run.batch(40, 10, 1)
    line = _timeline(run, 50)
    html = page(run.spec, line, figures(run.spec, line), checks(line, EQUAL))
    assert "&lt;b&gt;150 rows/s&lt;/b&gt; &amp; more" in html
    assert "<script src=" not in html
    assert "<link" not in html


def test_page_and_its_picture_follow_the_browsers_colour_scheme(run: Run) -> None:
    run.launch(0, 4, 1)
    line = _timeline(run, 50)
    html = page(run.spec, line, figures(run.spec, line), checks(line, EQUAL))
    assert "@media (prefers-color-scheme: dark)" in html
    assert '"paper_bgcolor":"rgba(0,0,0,0)"' in html
    assert '"plot_bgcolor":"rgba(0,0,0,0)"' in html


def test_page_shows_state_partitions_before_and_on_the_most_executors(run: Run) -> None:
    run.launch(0, 4, 1)
    for time_s, executors in ((10, (0, 0, 0)), (20, (0, 1, 0)), (30, (0, 1, 1)), (40, (1, 1, 1))):
        run.evaluate(time_s, 10, None, "measured", partition_loads=groups([1.0, 2.0, 3.0], executors))
    line = _timeline(run, 50)
    html = page(run.spec, line, figures(run.spec, line), checks(line, EQUAL))
    assert html.count('<table class="heat">') == 2
    assert "0:10, 1 executor<" in html and "0:30, 2 executors<" in html and "5.0 s" in html

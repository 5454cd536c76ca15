"""A stream's runs as records."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.elastic.capacity import BatchTime, needed_slots
from benchmarks.elastic.contest import fixed_for, records
from benchmarks.elastic.runs import FIGURES, Run
from benchmarks.elastic.streams import step6, stream
from benchmarks.record import Record

STREAM = stream("step6", step6, 40)


def _run(core_seconds: float, behind_s: float, gaps: tuple[float, ...] = (0.1,), lost: int = 0) -> Run:
    costs = {"core_seconds": core_seconds, "behind_s": behind_s, "rows_lost": float(lost)}
    return Run({**dict.fromkeys(FIGURES, 0.0), **costs}, list(gaps), 0.0, [])


def _figure(found: list[Record], method: str, figure: str) -> Record:
    return next(r for r in found if (r.method, r.figure) == (method, figure))


def test_every_method_has_every_figure() -> None:
    found = records(STREAM, [{"fixed_6": _run(600, 0), "live": _run(300, 0)}])
    for method in ("fixed_6", "live"):
        assert {r.figure for r in found if r.method == method} >= {*FIGURES, "downtime_s"}


def test_one_run_in_which_a_rival_is_better_misses_the_target() -> None:
    good, bad = {"ratio": _run(600, 9), "live": _run(300, 0)}, {"ratio": _run(200, 0), "live": _run(300, 0)}
    assert _figure(records(STREAM, [good, good]), "live", "better_rivals").holds is True
    assert _figure(records(STREAM, [good, bad]), "live", "better_rivals").holds is False


def test_cost_is_compared_with_the_smallest_fixed_size_that_keeps_the_goal() -> None:
    rivals = {"fixed_4": _run(300, 9), "fixed_6": _run(600, 0.5), "fixed_10": _run(900, 0)}
    first, second = {**rivals, "live": _run(480, 0)}, {**rivals, "live": _run(540, 4)}
    found = records(replace(STREAM, name="day"), [first, second])
    ratio, behind = (_figure(found, "live", figure) for figure in ("core_seconds_vs_fixed", "behind_ratio"))
    assert (ratio.value, ratio.n, ratio.holds) == (0.9, 2, False)
    assert (behind.value, behind.holds) == (0.1, False)
    none = records(STREAM, [{"fixed_4": _run(300, 9), "live": _run(200, 2)}])
    assert all(r.figure != "core_seconds_vs_fixed" for r in none)
    assert _figure(none, "live", "behind_ratio").holds is True


def test_downtime_is_judged_by_the_worst_run_against_fixed_slots() -> None:
    fixed, calm, stopped = _run(600, 0, (0.1, 0.3)), _run(300, 0, (0.2, 0.4)), _run(300, 0, (0.2, 8.3))
    found = records(STREAM, [{"fixed_6": fixed, "live": calm}, {"fixed_6": fixed, "live": stopped}])
    downtime = _figure(found, "live", "downtime_s")
    assert (downtime.holds, downtime.high is not None) == (False, True)
    assert _figure(found, "fixed_6", "downtime_s").value == 0


def test_row_that_is_lost_once_is_reported() -> None:
    found = records(STREAM, [{"live": _run(300, 0)}, {"live": _run(300, 0, lost=2)}, {"live": _run(300, 0)}])
    lost = _figure(found, "live", "rows_lost")
    assert (lost.value, lost.holds) == (2, False)


def test_method_that_failed_in_one_round_keeps_its_other_runs() -> None:
    found = records(STREAM, [{"live": _run(300, 0)}, {"live": _run(300, 0), "ratio": _run(600, 0)}])
    assert (_figure(found, "ratio", "core_seconds").n, _figure(found, "live", "core_seconds").n) == (1, 2)


def test_fixed_sizes_are_those_between_the_mean_and_the_peak_and_one_more() -> None:
    times = {slots: BatchTime(0.5, 0.06 / slots) for slots in (2, 4, 6, 8)}
    found = fixed_for(STREAM, times, 20.0)
    slots = [method.slots or 0 for method in found]
    assert [method.name for method in found] == [f"fixed_{n}" for n in slots]
    assert len(slots) >= 2 and slots == list(range(slots[0], slots[-1] + 1, 2))
    assert slots[-2] == needed_slots(STREAM.counts, times, 20.0)
    assert fixed_for(STREAM, {}, 20.0) == ()

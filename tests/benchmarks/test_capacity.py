from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import capacity
from benchmarks.capacity import FULL, MAX_FILES, QUICK, SATURATING, WAIT_MS, Measured, Plan, judge, measure
from benchmarks.delays_app import PARTITIONS
from millrace.model.telemetry import BatchMetrics
from tests.include.control.synthetic import START, App


def app(cap: int | None = None) -> App:
    return App(fixed_s=1.0, rows_per_s=200.0, noise=0.01, cap=cap, rng=random.Random(5))


def moderate(rate: Callable[[float], float] = lambda t: 80 + 40 * math.sin(t / 9)) -> list[BatchMetrics]:
    return app().run(200, rate)[3:]


def drained(rows: int, batches: int = 6) -> list[BatchMetrics]:
    """Batches of ``rows``, one right after the other."""
    full = app(cap=rows)
    full.source_end = rows * (batches + 10)
    return [full.batch(0) for _ in range(batches + 1)]


def untold(batches: list[BatchMetrics]) -> list[BatchMetrics]:
    """The same, without the time that operators worked."""
    return [replace(b, operators=tuple(replace(o, useful_s=None) for o in b.operators)) for b in batches]


def test_judge_when_cost_is_a_line_then_moderate_load_predicts_what_full_batches_sustain() -> None:
    told = judge(4, moderate(), drained(3000))
    assert told.truth == pytest.approx(3000 / (1 + 3000 / 200), rel=0.02)
    assert told.ours == pytest.approx(told.truth, rel=0.05)
    assert told.low <= told.truth <= told.high
    assert (told.parallelism, told.batches, told.fixed_s) == (4, 6, pytest.approx(1.0, rel=0.15))
    assert told.rows_per_duration < 0.8 * told.truth


@pytest.mark.parametrize(
    "batches",
    [untold(drained(150)), untold(moderate()[:2]), []],
    ids=["rows never vary", "too few batches", "none was healthy"],
)
def test_judge_when_a_level_has_no_fit_then_predicts_nan_and_reports_the_truth(batches: list[BatchMetrics]) -> None:
    told = judge(4, batches, drained(3000))
    assert told.truth == pytest.approx(3000 / (1 + 3000 / 200), rel=0.02)
    assert all(map(math.isnan, (told.ours, told.fixed_s, told.rows_per_s, told.heaviest_stage)))
    records = {(r.method, r.figure): r for r in capacity._records(told)}
    assert records["millrace", "predicted / measured"].holds is False
    assert records["measured", "highest sustainable rate"].value == told.truth


def test_judge_when_operators_report_no_useful_time_then_varying_rows_still_predict() -> None:
    told = judge(4, untold(moderate()), drained(3000))
    assert told.ours == pytest.approx(told.truth, rel=0.1) and math.isnan(told.heaviest_stage)


def test_records_when_the_prediction_is_off_by_a_tenth_then_the_target_is_missed() -> None:
    told = judge(4, moderate(), drained(3000))
    for factor, holds in ((0.8, False), (1.0, True), (1.2, False)):
        found = capacity._records(replace(told, ours=told.truth * factor))
        judged = [r for r in found if r.target is not None]
        assert [(r.method, r.figure, r.holds) for r in judged] == [("millrace", "predicted / measured", holds)]


@dataclass
class Double:
    """A feed and an app in one. It counts the commits and returns batches at once."""

    commits: list[tuple[int, int]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)

    def feed(self, folder: Path, rows: object) -> Double:
        return self

    def driver(self, folder: Path, slots: int, options: tuple[str, ...]) -> Double:
        self.options = options
        return self

    def __enter__(self) -> Double:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def commit(self, rows: int, parts: int = PARTITIONS) -> None:
        self.commits.append((rows, parts))

    @contextmanager
    def at(self, rate: Callable[[float], float]) -> Iterator[None]:
        self.rates = [rate(float(s)) for s in range(1000)]
        yield
        self.commits.clear()

    def await_batches(self, least: int, **how: Any) -> list[BatchMetrics]:
        self.asked.append({"least": least, **how})
        return moderate() if len(self.asked) < 3 else drained(how["rows"])


@pytest.mark.parametrize("plan", [QUICK, FULL])
def test_measure_when_the_backlog_is_made_then_each_commit_is_like_one_of_the_load_before(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = Double()
    monkeypatch.setattr(capacity, "Feed", double.feed)
    monkeypatch.setattr(capacity, "DelaysApp", double.driver)
    monkeypatch.setattr(capacity, "sleep", lambda _: None)
    found = measure(tmp_path, 4, plan, None)
    assert isinstance(found, Measured) and found.batches == 6
    nominal = 4 * 1000 / WAIT_MS
    assert all(0.4 * nominal <= rate <= 0.6 * nominal for rate in double.rates)
    per_batch = MAX_FILES // PARTITIONS
    assert double.commits == [(int(nominal * SATURATING), PARTITIONS)] * (per_batch * (plan.full_batches + 2))
    full = double.asked[-1]
    assert full["least"] == plan.full_batches + 1
    assert 0.95 < full["rows"] / (per_batch * nominal * SATURATING) < 1
    assert full["since"] > START
    assert f"--max-files={MAX_FILES}" in double.options

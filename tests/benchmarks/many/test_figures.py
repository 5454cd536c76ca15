"""The figures of a measured window, and what is calculated from them."""

from __future__ import annotations

import pytest

from benchmarks.many.bench import TARGETS
from benchmarks.many.evaluations import Evaluation, History
from benchmarks.many.figures import ANSWER, CORES, Window, calculated_cores, cores, per_evaluation_s, records
from benchmarks.targets import judged

USED_S = {"scheduler": 60.0, "triggerer": 30.0, "synthetic drivers": 500.0, "spark-master": 5.0, "spark-worker": 5.0}


def _history(wait_s: float) -> History:
    """Return a pipeline that commits every 20 s, with one silence, and whose evaluations take some seconds."""
    commits = [(20.0 * n, n) for n in range(31) if not 460 < 20 * n < 540]
    evaluations = [Evaluation(began := 60.0 * n + 1, began + wait_s, 3 * n, "hold", "at_minimum") for n in range(10)]
    return History(commits, evaluations)


def test_drivers_and_spark_are_not_in_the_total() -> None:
    assert cores(USED_S, 600.0) == pytest.approx(0.15)


def test_cores_for_more_pipelines_grow_with_their_evaluations() -> None:
    assert per_evaluation_s(0.6, 0.1, 100, 600.0) == pytest.approx(3.0)
    assert per_evaluation_s(0.1, 0.2, 100, 600.0) == 0.0
    assert per_evaluation_s(0.6, 0.1, 0, 600.0) is None
    assert calculated_cores(0.1, 3.0, 200) == pytest.approx(10.1)


def test_records_have_the_same_figures_and_targets_in_every_run() -> None:
    of_pipelines = {"a": _history(2.0), "b": _history(2.0)}
    window = Window(0.0, 600.0, 630.0, USED_S, of_pipelines, ("d.t", "d.t"), grown_mb={"Airflow": 0.5})
    found = {r.figure: r for r in judged(list(records("p50", window, 0.05)), TARGETS)}
    assert found[CORES].value == pytest.approx(0.15) and found[CORES].holds
    assert found[ANSWER.format(95)].value == pytest.approx(3.0) and found[ANSWER.format(95)].holds
    assert found["evaluations per pipeline and minute"].value == 1.0
    assert found["CPU per evaluation"].value == pytest.approx(3.0)
    assert found["commits without a Decision"].value == 0
    assert found["cores for 2 pipelines, calculated"].value == pytest.approx(0.15)
    assert found["cores for 200 pipelines, calculated"].value == pytest.approx(10.05)
    assert found["share of 8 cores for 200 pipelines, calculated"].value == pytest.approx(1.256)
    assert found["cores for 1,000 pipelines, calculated"].value == pytest.approx(50.05)
    assert found["Airflow's files after 30 days, calculated"].value == pytest.approx(2160.0)
    assert found["failed: d.t"].value == 2 and found["Decisions with unexpected reasons"].value == 0


def test_pipeline_that_is_not_evaluated_misses_the_target() -> None:
    late = History(_history(2.0).commits, [Evaluation(1.0, 3.0, 0, "hold", "data_quality")])
    found = {
        r.figure: r for r in judged(list(records("p50", Window(0.0, 600.0, 630.0, USED_S, {"a": late}), 0.05)), TARGETS)
    }
    assert found[ANSWER.format(95)].value == pytest.approx(90.0) and not found[ANSWER.format(95)].holds
    assert found["commits without a Decision"].value == 1
    assert found["unexpected: hold: data_quality"].value == 1

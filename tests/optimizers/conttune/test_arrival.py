from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from millrace.optimizers.conformance.builders import app_signals, dag_signals, deployment, operator, source
from millrace.optimizers.conttune.arrival import at_rate, rate_at_end
from millrace.optimizers.conttune.job_graph import Job, build_job, whole_app

rates = st.floats(1.0, 1e6)


def seen(mean: float, newest: float | None) -> Job:
    app = app_signals(4, mean, None, arrival_recent_rows_per_s=newest)
    return Job(app, (whole_app(app),), ())


def jumped(before: float, after: float, share: float) -> Job:
    """A period with the given share after a jump."""
    return seen(before + share * (after - before), before + min(1.0, 3 * share) * (after - before))


@given(before=rates, after=rates, share=st.floats(0.41, 0.99))
def test_rate_after_an_early_jump_is_that_of_the_newest_third(before: float, after: float, share: float) -> None:
    assume(abs(after - before) > 0.05 * max(after, before))
    assert rate_at_end(jumped(before, after, share), before) == pytest.approx(after)


@given(before=rates, after=rates, share=st.floats(0.0, 1 / 3))
def test_rate_after_a_late_jump_is_never_halfway(before: float, after: float, share: float) -> None:
    told = rate_at_end(jumped(before, after, share), before)
    assert told is None or told == pytest.approx(before, rel=0.12)


@given(rate=rates, mean=st.floats(-0.02, 0.02), newest=st.floats(-0.03, 0.03))
def test_arriving_when_the_rate_only_scatters_then_is_about_the_mean(rate: float, mean: float, newest: float) -> None:
    told = rate_at_end(seen(rate * (1 + mean), rate * (1 + newest)), rate)
    assert told == pytest.approx(rate * (1 + mean), rel=0.05)


def test_rate_with_few_values_is_the_mean_or_waited_for() -> None:
    assert rate_at_end(seen(100.0, None), None) == 100.0
    assert rate_at_end(seen(100.0, 150.0), None) == 150.0
    assert rate_at_end(seen(100.0, None), 102.0) == 100.0
    assert rate_at_end(seen(100.0, 150.0), 100.0) is None
    assert rate_at_end(seen(100.0, None), 150.0) is None
    assert rate_at_end(seen(120.0, 110.0), 100.0) == 120.0, "a peak that is over is no jump"


def test_rate_of_two_sources_is_separate_for_each() -> None:
    a, b = source("a", 150.0), source("b", 100.0)
    told = dag_signals([replace(a, arrival_recent_rows_per_s=200.0), b, operator("c", 2, 250.0, 300.0)], [])
    app = replace(told.apps[0], arrival_rows_per_s=250.0, arrival_recent_rows_per_s=300.0)
    now = at_rate(build_job(app, deployment(2, {"c": 2})), 300.0)
    assert now.app.arrival_rows_per_s == 300.0
    assert now.by_id["a"].arrival == 200.0
    assert now.by_id["b"].arrival == pytest.approx(120.0), (
        "where nothing newer is known the whole_app app's change holds"
    )
    assert now.by_id["c"].arrival is None


def test_at_rate_of_the_mean_changes_nothing() -> None:
    same = seen(100.0, 100.0)
    assert at_rate(same, 100.0) is same

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.control.batch_history import healthy
from millrace.control.capacity import (
    STATE_ROW_S,
    STORE_S,
    Uneven,
    fit,
    heaviest,
    is_as_good_as_empty,
    parallelism,
    task_cost,
    typical_parallelism,
    work,
)
from millrace.model.telemetry import BatchMetrics, OperatorBatch
from tests.examples import examples
from tests.include.control.synthetic import START, App


def batches_of(
    seed: int,
    n: int,
    rows: tuple[int, int],
    *,
    p: int = 4,
    fixed_s: float = 1.0,
    rate: float = 3000.0,
    noise: float = 0.02,
    outliers: float = 0.0,
    coverage: float = 1.0,
    useful: bool = True,
    first_id: int = 0,
) -> list[BatchMetrics]:
    rng = random.Random(seed)
    app = App(slots=p, fixed_s=fixed_s, rows_per_s=rate, noise=noise, coverage=coverage, rng=rng, batch_id=first_id)
    made = []
    for index in range(n):
        app.source_end += rng.randint(*rows)
        batch = app.batch(0)
        # if all of the newest are slow, the cost has changed
        if rng.random() < outliers and index < n - 1:
            slow = {"triggerExecution": int(batch.durations_ms["triggerExecution"] * rng.uniform(1.5, 5))}
            batch = replace(batch, durations_ms=slow)
        made.append(batch if useful else replace(batch, operators=(replace(batch.operators[0], useful_s=None),)))
    return made


costs = {"fixed_s": st.floats(0.2, 5), "rate": st.floats(100, 1e5), "p": st.integers(1, 16)}


@given(seed=st.integers(0, 10**6), useful=st.booleans(), outliers=st.sampled_from([0.0, 0.15]), **costs)
@examples(60)
def test_fit_when_rows_vary_then_recovers_cost_within_a_few_percent(
    seed: int, useful: bool, outliers: float, fixed_s: float, rate: float, p: int
) -> None:
    unit = max(2, int(fixed_s * rate))  # as many rows as cost the fixed time again
    batches = batches_of(
        seed, 60, (unit // 2, unit * 4), p=p, fixed_s=fixed_s, rate=rate, outliers=outliers, useful=useful
    )
    found = fit(batches)[p]
    assert found.rows_per_s == pytest.approx(rate, rel=0.06)
    assert found.fixed_s == pytest.approx(fixed_s, rel=0.12)
    assert abs(found.rows_per_s - rate) < 5 * found.rows_per_s_error
    assert found.rows_per_s_error < 0.06 * rate


@given(seed=st.integers(0, 10**6), coverage=st.floats(1.0, 1.6), **costs)
@examples(30)
def test_fit_shares_knowledge_between_levels(seed: int, coverage: float, fixed_s: float, rate: float, p: int) -> None:
    unit = max(50, int(fixed_s * rate))
    truth = {1: rate, 2: 1.9 * rate, 4: 3.5 * rate, 8: 6.5 * rate}
    batches: list[BatchMetrics] = []
    for level, of_level in truth.items():
        args = (seed + level, 30, (int(unit * 0.98), int(unit * 1.02)))
        batches += batches_of(*args, p=level, fixed_s=fixed_s, rate=of_level, coverage=coverage, first_id=len(batches))
    found = fit(batches)
    assert set(found) == set(truth)
    for level, of_level in truth.items():
        assert found[level].rows_per_s == pytest.approx(of_level, rel=0.15)
        assert abs(found[level].rows_per_s - of_level) < 3 * found[level].rows_per_s_error


def test_fit_uses_useful_time_if_rows_hardly_vary() -> None:
    found = fit(batches_of(3, 30, (2950, 3050)))[4]
    assert found.rows_per_s == pytest.approx(3000, rel=0.2)
    assert 0.05 < found.rows_per_s_error / found.rows_per_s < 0.5


def test_fit_counts_useful_time_of_a_stage_that_slots_share_unevenly() -> None:
    def skewed(batch: BatchMetrics) -> BatchMetrics:
        """The slots worked half as much as the batch took: the others waited for the slowest."""
        (stage,) = batch.operators
        save = replace(stage, name="StateStoreSave", useful_s=(stage.useful_s or 0.0) / 2)
        return replace(batch, operators=(save,))

    batches = [skewed(batch) for batch in batches_of(3, 30, (29_500, 30_500), rate=30_000.0)]
    assert fit(batches, uneven=Uneven(4, 2.0))[4].rows_per_s == pytest.approx(30_000, rel=0.25)
    assert fit(batches) == {}, "the batches contradict an even spread"
    assert fit(batches, uneven=Uneven(8, 2.0)) == fit(batches), "measured at other slots"
    plain = [replace(batch, operators=(replace(batch.operators[0], name="Project"),)) for batch in batches]
    assert fit(plain, uneven=Uneven(4, 2.0)) == fit(plain), "a stage without state"


def test_fit_is_none_if_fixed_cost_and_slope_cannot_be_separated() -> None:
    assert fit(batches_of(3, 30, (2950, 3050), useful=False)) == {}


def test_fit_when_a_level_is_new_then_few_batches_are_enough() -> None:
    old = batches_of(1, 40, (500, 6000), p=2, rate=1600, noise=0.05)
    new = batches_of(2, 4, (3900, 4100), p=4, rate=3000, noise=0.05, first_id=40)
    found = fit([*old, *new])
    assert found[4].rows_per_s == pytest.approx(3000, rel=0.12)
    assert found[4].batches == 4


def test_fit_when_compared_with_its_rivals_then_is_far_better() -> None:
    batches = batches_of(5, 40, (1000, 4000), coverage=1.3)
    truth, found = 3000.0, fit(batches)[4].rows_per_s
    by_duration = sum(b.rows_in for b in batches) / sum(b.duration_s for b in batches)
    stage_alone = sum(b.rows_in for b in batches) * 4 / sum(b.operators[0].useful_s or 0 for b in batches)
    assert abs(found / truth - 1) < 0.05 < min(1 - by_duration / truth, stage_alone / truth - 1)


def test_fit_takes_the_fixed_cost_from_batches_without_rows() -> None:
    batches = batches_of(7, 12, (2900, 3100), useful=False)
    empty = [
        replace(b, rows_in=0, batch_id=100 + i, operators=(), durations_ms={"triggerExecution": 950})
        for i, b in enumerate(batches)
    ]
    found = fit([*batches, *empty])[4]
    assert found.batches == 12
    assert found.fixed_s == pytest.approx(1.0, rel=0.15)
    assert found.rows_per_s == pytest.approx(3000, rel=0.15)


anything = st.builds(
    lambda i, rows, ms, slots, tasks, useful: BatchMetrics(
        "a",
        "a",
        "q",
        START,
        1,
        0,
        i,
        slots,
        rows,
        durations_ms={"triggerExecution": ms},
        operators=(OperatorBatch("0", "Map", tasks, None, rows, rows, useful),),
    ),
    st.integers(0, 10**6),
    st.integers(-5, 10**9),
    st.integers(-5, 10**7),
    st.integers(-1, 64),
    st.none() | st.integers(-1, 64),
    st.none() | st.floats(allow_nan=True, allow_infinity=True),
)


@given(st.lists(anything, max_size=25))
@examples(200)
def test_fit_when_rows_are_arbitrary_then_nothing_is_negative_or_nan(batches: list[BatchMetrics]) -> None:
    for given_batches in (batches, healthy(batches)):
        for p, found in fit(given_batches).items():
            assert p == found.parallelism >= 1
            assert found.fixed_s >= 0 and found.rows_per_s > 0 and found.rows_per_s_error >= 0
            assert all(map(math.isfinite, (found.fixed_s, found.rows_per_s, found.rows_per_s_error)))


@given(seed=st.integers(0, 10**6), rows=st.integers(2, 50), seconds=st.integers(2, 50), narrow=st.booleans())
@examples(30)
def test_fit_when_rows_or_seconds_are_scaled_then_the_result_is_scaled(
    seed: int, rows: int, seconds: int, narrow: bool
) -> None:
    batches = batches_of(seed, 12, (2900, 3100) if narrow else (500, 6000), noise=0.05, outliers=0.1)
    scaled = [
        replace(
            b,
            rows_in=b.rows_in * rows,
            durations_ms={"triggerExecution": b.durations_ms["triggerExecution"] * seconds},
            operators=tuple(replace(o, useful_s=(o.useful_s or 0) * seconds) for o in b.operators),
        )
        for b in batches
    ]
    plain, bigger = fit(batches)[4], fit(scaled)[4]
    assert bigger.rows_per_s == pytest.approx(plain.rows_per_s * rows / seconds, rel=1e-4)
    assert bigger.fixed_s == pytest.approx(plain.fixed_s * seconds, rel=1e-4, abs=1e-6)
    assert bigger.rows_per_s_error == pytest.approx(plain.rows_per_s_error * rows / seconds, rel=1e-3)


def test_error_when_fitted_many_times_then_covers_the_truth() -> None:
    off = []
    for seed in range(150):
        found = fit(batches_of(seed, 20, (1000, 6000), noise=0.08, outliers=0.1))[4]
        off.append(abs(found.rows_per_s - 3000) / found.rows_per_s_error)
    within = sum(z < 2 for z in off) / len(off)
    assert within > 0.88
    assert sum(z > 0.3 for z in off) / len(off) > 0.4, "the error is no honest one if it is never reached"


def test_fit_stays_right_despite_start_costs_and_foreign_cpu() -> None:
    app, batches = App(rng=random.Random(3), noise=0.03, rows_per_s=2000), []
    for generation in (1, 2, 3):
        app.generation = generation
        part = app.run(60, lambda t: 900 + 600 * math.sin(t / 15))
        part[0] = replace(part[0], durations_ms={"triggerExecution": 9000})
        batches += part
    loaded = {b.batch_id for b in batches[5::6]}
    batches = [
        replace(b, host_cpu_other=0.9, durations_ms={"triggerExecution": int(b.duration_s * 2000)})
        if b.batch_id in loaded
        else b
        for b in batches
    ]
    assert fit(healthy(batches))[4].rows_per_s == pytest.approx(2000, rel=0.05)
    assert not loaded & {b.batch_id for b in healthy(batches)}


@pytest.mark.parametrize("load", [0.25, 0.6])
@pytest.mark.parametrize("fixed_s", [(4.0, 0.6), (0.6, 4.0), (4.0, 3.2, 2.5, 2.0, 1.6, 1.2, 0.9, 0.6)])
def test_fit_keeps_the_cost_of_a_row_while_the_fixed_cost_drifts(fixed_s: tuple[float, ...], load: float) -> None:
    for seed in range(5):
        app, batches = App(rng=random.Random(seed), noise=0.03, rows_per_s=2000, coverage=1.05), []
        for of_part in fixed_s:
            app.fixed_s = of_part
            batches += app.run(200 / len(fixed_s), load * 2000)
        found = fit(batches)[4]
        assert found.rows_per_s == pytest.approx(2000, rel=0.15)
        assert abs(found.rows_per_s - 2000) < 3 * found.rows_per_s_error


def test_fit_sees_from_new_rates_that_rows_cost_more_than_operators_report() -> None:
    for seed in range(5):
        app, batches = App(rng=random.Random(seed), noise=0.03, rows_per_s=2000, coverage=2.0, fixed_s=0.2), []
        for rate in (1900, 1750, 1850, 1700, 1900, 1800):  # a batch is mostly rows, like one that a drift lengthens
            batches += app.run(60, rate)
        assert fit(batches)[4].rows_per_s == pytest.approx(2000, rel=0.1)


def test_parallelism_when_operators_differ_then_the_heaviest_decides() -> None:
    light = OperatorBatch("0", "Scan", 1, None, 10, 10, 0.1)
    heavy = OperatorBatch("1", "Map", 9, None, 10, 10, 5.0)
    unknown = OperatorBatch("2", "Sink", None, None, 10, 10, 9.0)
    batch = BatchMetrics("a", "a", "q", START, 1, 0, 0, 4, 10, operators=(light, heavy, unknown))
    assert heaviest(batch) == heavy
    assert parallelism(batch) == 4
    assert parallelism(replace(batch, operators=())) is None
    assert typical_parallelism([batch, replace(batch, operators=(light,)), batch]) == 4
    assert typical_parallelism([replace(batch, rows_in=0)]) is None


def test_work_takes_the_start_cost_from_light_operators() -> None:
    scan = OperatorBatch("0", "Scan", 2, 2, 800, 800, 0.2)
    look_up = OperatorBatch("1", "MapInPandas", 4, 4, 800, 800, 16.4)
    state = OperatorBatch("2", "StateStoreSave", 8, 4, 800, 0, 0.8)
    batch = BatchMetrics(
        "a", "a", "q", START, 1, 0, 0, 4, 800, durations_ms={"triggerExecution": 6000}, operators=(scan, look_up, state)
    )
    told = work(batch)
    assert told is not None
    assert told.rows_s == pytest.approx((16.4 - 0.4) / 4)
    assert told.starts_s == pytest.approx(0.1 * (2 / 2 + 4 / 4 + 8 / 4))
    alone = work(replace(batch, operators=(look_up,)))
    assert alone is not None
    assert (alone.rows_s, alone.starts_s) == (pytest.approx(4.1), 0.0)
    assert work(replace(batch, operators=(OperatorBatch("3", "Sink", None, None, 1, 1, 9.0),))) is None
    assert work(replace(batch, durations_ms={"triggerExecution": 900})) is None, "more than the batch could hold"


def stateful(useful: float | None, rows: int | None, tasks: int = 4, name: str = "StateStoreSave") -> OperatorBatch:
    return OperatorBatch("1", name, tasks, tasks, rows, rows, useful)


@given(tasks=st.integers(1, 64), rows=st.integers(1, 10**7), useful=st.floats(1e-3, 1e4), tau=st.floats(0, 0.1))
def test_task_cost_of_a_stateful_operator_is_the_most_likely(tasks: int, rows: int, useful: float, tau: float) -> None:
    found = task_cost(stateful(useful, rows, tasks), tasks, tau).mean
    assert tau <= found <= max(tau, useful / tasks) * (1 + 1e-9)

    def surprise(a: float) -> float:
        return ((a - tau) / STORE_S) ** 2 + ((useful - a * tasks) / rows / STATE_ROW_S) ** 2

    if found > tau:
        assert surprise(found) <= min(surprise(0.99 * found), surprise(1.01 * found)) + 1e-9


def test_task_cost_falls_from_all_to_none_as_rows_grow() -> None:
    assert task_cost(stateful(1.0, 8), 4, 0.01).mean == pytest.approx(0.25, rel=0.01)
    assert task_cost(stateful(400.0, 10**6), 4, 0.01).mean == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize(
    "operator",
    [stateful(1.0, 8, name="MapInPandas"), stateful(1.0, 0), stateful(1.0, None), stateful(0.02, 8), stateful(None, 8)],
    ids=["keeps no state", "no rows", "rows unknown", "quicker than the lightest", "time unknown"],
)
def test_task_cost_without_a_store_is_that_of_a_start(operator: OperatorBatch) -> None:
    assert task_cost(operator, 4, 0.01).mean == 0.01


def test_work_on_rows_excludes_opening_of_stores() -> None:
    parts = (OperatorBatch("0", "Scan", 4, 4, 400, 400, 0.04), stateful(1.2, 400))
    batch = BatchMetrics(
        "a", "a", "q", START, 1, 0, 0, 4, 400, durations_ms={"triggerExecution": 3000}, operators=parts
    )
    told, plain = work(batch), work(replace(batch, operators=(parts[0], stateful(1.2, 400, name="MapInPandas"))))
    assert told is not None and plain is not None
    assert told.starts_s == pytest.approx(0.01 + task_cost(parts[1], 4, 0.01).mean)
    assert plain.starts_s == pytest.approx(0.01 + 0.01)
    assert told.rows_s < 0.4 * plain.rows_s


def test_fit_keeps_the_slope_of_rows_if_tasks_open_stores() -> None:
    def steady(i: int, name: str) -> BatchMetrics:
        rows = 500 + 5 * (i % 5)
        parts = (
            OperatorBatch("0", "Scan", 4, 4, rows, rows, 0.04),
            OperatorBatch("1", "MapInPandas", 4, 4, rows, rows, 0.04 + 4 * rows / 1000),
            OperatorBatch("2", name, 4, 4, rows, rows, 4 * 0.2 + 0.00002 * rows),
        )
        duration = {"triggerExecution": round(1000 * (1.0 + 0.2 + rows / 1000))}
        return BatchMetrics("a", "a", "q", START, 1, 0, i, 4, rows, durations_ms=duration, operators=parts)

    found, plain = (fit([steady(i, n) for i in range(30)])[4].rows_per_s for n in ("StateStoreSave", "Filter"))
    assert abs(found / 1000 - 1) < 0.12 < 0.25 < abs(plain / 1000 - 1)


def test_fit_claims_nothing_from_the_start_of_tasks() -> None:
    def quiet(i: int) -> BatchMetrics:
        parts = (("Scan", 4, 0.4), ("MapInPandas", 4, 0.56), ("StateStoreSave", 8, 1.2))
        made = tuple(OperatorBatch(name, name, tasks, 4, 8, 8, useful) for name, tasks, useful in parts)
        duration = {"triggerExecution": 1500 + 7 * (i % 5)}
        return BatchMetrics("a", "a", "q", START, 1, 0, i, 4, 8, durations_ms=duration, operators=made)

    assert fit([quiet(i) for i in range(20)]) == {}


def night(i: int, rows: int) -> BatchMetrics:
    """A batch of a quiet night: eight tasks, most of them without a row, cost more than its rows."""
    parts = (
        OperatorBatch("0", "Scan", min(rows, 8), 2, rows, rows, 0.02 * rows),
        OperatorBatch("1", "MapInPandas", 8, 2, rows, rows, 0.01 * 8 + 0.06 * rows),
        OperatorBatch("2", "ObjectHashAggregate", 8, 2, rows, rows, 0.5 + 0.1 * (i % 4)),
        OperatorBatch("3", "StateStoreSave", 8, 2, rows, 0, 1.6),
    )
    duration = {"triggerExecution": 3400 + 400 * (i % 3)}
    return BatchMetrics("a", "a", "q", START, 1, 0, i, 2, rows, durations_ms=duration, operators=parts)


def full(i: int, rows: int) -> BatchMetrics:
    parts = (
        OperatorBatch("1", "MapInPandas", 8, 2, rows, rows, 0.01 * 8 + 0.06 * rows),
        OperatorBatch("3", "StateStoreSave", 8, 2, rows, 0, 1.6),
    )
    duration = {"triggerExecution": round(3800 + 30 * rows)}
    return BatchMetrics("a", "a", "q", START, 1, 0, i, 2, rows, durations_ms=duration, operators=parts)


def test_fit_keeps_the_cost_of_a_row_through_a_night_with_a_row_or_two_per_batch() -> None:
    evening = [full(i, rows) for i, rows in enumerate([220, 150, 90, 60, 120])]
    quiet = [night(5 + i, 1 + i % 3) for i in range(20)]
    assert fit(evening)[2].rows_per_s == pytest.approx(1 / 0.03, rel=0.15)
    assert fit([*evening, *quiet])[2].rows_per_s == pytest.approx(1 / 0.03, rel=0.15)


def test_fit_claims_nothing_from_a_night_alone() -> None:
    assert fit([night(i, 1 + i % 3) for i in range(20)]) == {}


def test_batch_of_few_rows_that_cost_much_is_not_as_good_as_empty() -> None:
    slow = OperatorBatch("1", "MapInPandas", 4, 4, 4, 4, 40.0)
    batch = BatchMetrics(
        "a", "a", "q", START, 1, 0, 0, 4, 4, durations_ms={"triggerExecution": 12_000}, operators=(slow,)
    )
    assert not is_as_good_as_empty(batch)
    assert not is_as_good_as_empty(replace(batch, operators=())), "unknown work"
    assert is_as_good_as_empty(replace(batch, operators=(replace(slow, useful_s=0.4),)))
    assert is_as_good_as_empty(replace(batch, rows_in=0))

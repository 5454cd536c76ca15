from __future__ import annotations

import numpy as np
import pytest

from millrace.optimizers.conformance.builders import observed
from millrace.optimizers.conttune.flow import Flow
from millrace.optimizers.conttune.observed_levels import observed_levels
from millrace.optimizers.conttune.observed_levels import training_columns as of_levels
from millrace.optimizers.conttune.options import FlowOptions
from millrace.optimizers.conttune.surrogate import LEVEL_SD, fit, level_sd

# means of the published observations of Nexmark Q1's mapper on Flink ([ContTune]'s artifact), rows per second
Q1 = {1: 529573, 2: 966827, 4: 1830236, 6: 2535064, 7: 2932321, 8: 3112389, 10: 3733032, 14: 4624681, 15: 4964037}
Q1 |= {20: 6338741, 21: 6445507, 25: 7088207, 26: 7476391}


def training(points: dict[int, float]) -> dict[str, tuple[float, ...]]:
    return {"parallelism": tuple(map(float, points)), "throughput": tuple(map(float, points.values()))}


def test_surrogate_predicts_a_published_level_within_2_5_percent() -> None:
    errors = []
    for p, ability in Q1.items():
        rest = {q: v for q, v in Q1.items() if q != p}
        errors.append(abs(fit(training(rest)).predict([p])[0][0] - ability) / ability)
    assert float(np.mean(errors)) <= 0.025


def test_surrogate_extrapolates_one_level_by_the_prior_exponent() -> None:
    mean, std = fit(training({2: 200.0}), FlowOptions(exponent=0.9)).predict([1, 2, 8])
    assert mean == pytest.approx([200 * 0.5**0.9, 200.0, 200 * 4**0.9], rel=0.02)
    assert std[1] < std[0] < std[2]
    sure = fit(training({2: 200.0}), FlowOptions(exponent_sd=0.02)).predict([8])[1][0]
    assert sure < std[2] / 1.5


def test_surrogate_when_levels_scale_worse_than_the_prior_then_learns_it() -> None:
    truth = {p: 100.0 * p**0.65 for p in (1, 2, 4, 8)}
    assert fit(training(truth)).predict([16])[0][0] == pytest.approx(100 * 16**0.65, rel=0.1)


def test_surrogate_when_more_levels_are_known_then_is_surer_between_them() -> None:
    few, many = ({p: 100.0 * p**0.8 for p in levels} for levels in ((1, 8), (1, 2, 4, 8)))
    assert fit(training(many)).predict([6])[1][0] < fit(training(few)).predict([6])[1][0]


def test_surrogate_when_a_level_is_noisy_then_trusts_the_others() -> None:
    points = {"parallelism": (1.0, 2.0, 4.0), "throughput": (100.0, 300.0, 348.0)}
    sure = fit({**points, "noise": (1.0, 1.0, 1.0)}).predict([2])[0][0]
    unsure = fit({**points, "noise": (1.0, 150.0, 1.0)}).predict([2])[0][0]
    assert abs(unsure - 187) < 10 < abs(sure - 187)


def test_surrogate_keeps_the_peculiarity_of_an_observed_level() -> None:
    odd = {**{p: 100.0 * p**0.85 for p in (2, 3, 5, 6)}, 4: 100.0 * 4**0.85 * 0.96}
    known = of_levels(observed_levels(observed({p: [v] * 9 for p, v in odd.items()}), 9))
    mean, std = fit(known).predict([4, 7])
    assert mean[0] == pytest.approx(odd[4], rel=0.02)
    assert std[0] < 0.012 < std[1]


def scattered(sd: float, seed: int = 3) -> dict[int, float]:
    draw = np.random.default_rng(seed)
    return {p: 100.0 * p**0.85 * float(np.exp(sd * draw.standard_normal())) for p in range(2, 16)}


def test_surrogate_is_less_sure_if_levels_are_off_any_smooth_curve() -> None:
    smooth, rough = (fit(training(scattered(sd))).predict([17])[1][0] for sd in (0.0, 0.08))
    assert rough > 2 * smooth


@pytest.mark.parametrize(
    "points",
    [
        {p: 100.0 * min(p, 6) ** 0.9 for p in range(1, 13)},  # a plateau
        {p: 100.0 * p / (1 + 0.04 * (p - 1)) for p in range(1, 13)},  # contention
        {**{p: 100.0 * p**0.85 for p in range(1, 13)}, 7: 100.0 * 7**0.85 * 1.3},  # one odd level
        {1: 100.0, 2: 300.0, 4: 310.0},  # too few to judge
    ],
)
def test_levels_are_no_rougher_for_a_bend_or_one_odd_level(points: dict[int, float]) -> None:
    x, y = np.log(list(points)), np.log(list(points.values()))
    assert level_sd(x, y, np.zeros_like(x)) == LEVEL_SD


def test_scatter_of_levels_is_the_same_in_any_order_and_with_repeats() -> None:
    x, y = np.log(np.arange(2.0, 16.0)), np.log(list(scattered(0.08).values()))
    mixed = [*np.random.default_rng(1).permutation(len(x)), 4, 4]
    errors = np.full(len(x), 1e-4)
    assert level_sd(x[mixed], y[mixed], errors[mixed]) == level_sd(x, y, errors) > LEVEL_SD


@pytest.mark.parametrize("sd", [0.04, 0.08, 0.15])
def test_scatter_of_levels_is_learned_without_the_noise_of_measurements(sd: float) -> None:
    draw, noise, x = np.random.default_rng(5), 0.02, np.log(np.arange(2.0, 60.0))
    found = [
        level_sd(x, 0.85 * x + np.hypot(sd, noise) * draw.standard_normal(len(x)), np.full(len(x), noise**2))
        for _ in range(100)
    ]
    assert np.median(found) == pytest.approx(sd, rel=0.1)


def test_estimator_refitted_from_a_proposal_predicts_as_the_surrogate() -> None:
    points = {1: 100.0, 2: 187.0, 4: 350.0}
    for options in (FlowOptions(), FlowOptions(exponent=0.7, exponent_sd=0.3)):
        estimator = Flow(options).model(training(points))
        mean, _ = fit(training(points), options).predict([1, 2, 4])
        assert estimator.predict([[1], [2], [4]]) == pytest.approx(mean)
        assert mean == pytest.approx(list(points.values()), rel=0.05)


def test_estimator_when_stored_then_contains_only_library_types() -> None:
    io = pytest.importorskip("skops.io")
    points = training({1: 100.0, 2: 187.0, 4: 350.0, 8: 640.0})
    types = io.get_untrusted_types(data=io.dumps(Flow().model(points)))
    assert types and all(t.startswith(("skopt.", "numpy.")) for t in types), types


def test_surrogate_when_fitted_again_then_is_the_same() -> None:
    points = training({p: 100.0 * p**0.8 * (1 + 0.02 * (-1) ** p) for p in range(1, 9)})
    first, second = (fit(points).predict(range(1, 17)) for _ in range(2))
    assert np.array_equal(first[0], second[0]) and np.array_equal(first[1], second[1])

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optimizers.conttune.curve import curve
from optimizers.conttune.history import columns, levels
from optimizers.conttune.options import CORRECTED, LITERAL, Options
from optimizers.conttune.surrogate import fit
from optimizers.conttune.tuner import ContTune
from tests.optimizers.builders import observed

# means of the published observations of Nexmark Q1's mapper on Flink ([ContTune]'s artifact), rows a second
Q1 = {1: 529573, 2: 966827, 4: 1830236, 6: 2535064, 7: 2932321, 8: 3112389, 10: 3733032, 14: 4624681, 15: 4964037}
Q1 |= {20: 6338741, 21: 6445507, 25: 7088207, 26: 7476391}


def training(points: dict[int, float]) -> dict[str, tuple[float, ...]]:
    return {"parallelism": tuple(map(float, points)), "processing_ability": tuple(map(float, points.values()))}


def leave_one_out(options: Options) -> float:
    errors = []
    for p, ability in Q1.items():
        rest = {q: v for q, v in Q1.items() if q != p}
        errors.append(abs(fit(training(rest), options).predict([p])[0][0] - ability) / ability)
    return float(np.mean(errors))


def test_corrected_surrogate_when_a_published_level_is_left_out_then_predicts_it_within_2_5_percent() -> None:
    assert leave_one_out(CORRECTED) <= 0.025


def test_literal_surrogate_when_a_published_level_is_left_out_then_errs_as_the_authors_gp_does() -> None:
    assert leave_one_out(LITERAL) > 0.1


def test_literal_surrogate_when_asked_at_and_far_beyond_its_data_then_passes_through_it_and_falls_to_zero() -> None:
    model = fit(training({1: 100.0, 2: 190.0, 3: 270.0}), LITERAL)
    mean, std = model.predict([1, 2, 3, 60])
    assert mean[:3] == pytest.approx([100, 190, 270], rel=0.01)
    assert mean[3] < 1.0 and std[3] > std[0]


def test_corrected_surrogate_when_one_level_is_known_then_extrapolates_by_the_prior_exponent() -> None:
    mean, std = fit(training({2: 200.0})).predict([1, 2, 8])
    assert mean == pytest.approx([200 * 0.5**0.9, 200.0, 200 * 4**0.9], rel=0.02)
    assert std[1] < std[0] < std[2]


def test_corrected_surrogate_when_levels_scale_worse_than_the_prior_then_learns_it() -> None:
    truth = {p: 100.0 * p**0.7 for p in (1, 2, 4, 8)}
    assert fit(training(truth)).predict([16])[0][0] == pytest.approx(100 * 16**0.7, rel=0.1)


def test_corrected_surrogate_when_a_level_is_noisy_then_trusts_the_others() -> None:
    points = {"parallelism": (1.0, 2.0, 4.0), "processing_ability": (100.0, 300.0, 348.0)}
    sure = fit({**points, "noise": (1.0, 1.0, 1.0)}).predict([2])[0][0]
    unsure = fit({**points, "noise": (1.0, 150.0, 1.0)}).predict([2])[0][0]
    assert abs(unsure - 187) < 10 < abs(sure - 187)


def test_estimator_when_refitted_from_a_proposals_training_then_predicts_rows_a_second_as_the_surrogate_does() -> None:
    for options in (CORRECTED, LITERAL):
        estimator = ContTune(options).model(training({1: 100.0, 2: 187.0, 4: 350.0}))
        mean, _ = fit(training({1: 100.0, 2: 187.0, 4: 350.0}), options).predict([1, 2, 4])
        assert estimator.predict([[1], [2], [4]]) == pytest.approx(mean)
        assert mean == pytest.approx([100, 187, 350], rel=0.05)


def test_estimator_when_stored_then_holds_the_libraries_types_only() -> None:
    io = pytest.importorskip("skops.io")
    types = io.get_untrusted_types(data=io.dumps(fit(training({1: 100.0, 2: 187.0, 4: 350.0, 8: 640.0})).estimator))
    assert types and all(t.startswith("skopt.") for t in types)


@pytest.mark.parametrize("options", [CORRECTED, replace(LITERAL, monotone=True)], ids=["power_law", "rbf"])
def test_curve_when_monotone_then_never_falls(options: Options) -> None:
    known = levels(observed({1: 100.0, 2: 210.0, 3: 150.0, 6: 140.0}), 5)
    line = curve(fit(columns(known), options), known, 12, options)
    for values in (line.low, line.mean, line.high):
        assert (np.diff(values) >= 0).all()
    assert (line.low <= line.mean).all() and (line.mean <= line.high).all()


def test_curve_when_levels_scaled_better_than_linearly_then_is_linear_beyond_them() -> None:
    known = levels(observed({1: 100.0, 2: 300.0}), 5)
    line = curve(fit(columns(known)), known, 12, CORRECTED)
    assert line.mean[11] == pytest.approx(300.0 * 12 / 2)
    assert (line.mean[2:] <= 300.0 * np.arange(3, 13) / 2 + 1e-9).all()


def test_curve_when_literal_then_is_the_surrogates_own() -> None:
    known = levels(observed({1: 100.0, 2: 210.0, 3: 180.0}), 5)
    line = curve(fit(columns(known), LITERAL), known, 9, LITERAL)
    assert line.mean[2] < line.mean[1]
    assert line.mean[8] < line.mean[2]
    assert line.at(2) == line.mean[1] and line.at(99) == line.mean[8]
    assert {len(column) for column in line.columns().values()} == {9}


def test_surrogate_when_fitted_again_then_is_the_same() -> None:
    points = training({p: 100.0 * p**0.8 * (1 + 0.02 * (-1) ** p) for p in range(1, 9)})
    first, second = (fit(points).predict(range(1, 17)) for _ in range(2))
    assert np.array_equal(first[0], second[0]) and np.array_equal(first[1], second[1])

from __future__ import annotations

import numpy as np
import pytest

from millrace_rivals.conttune.options import ContTuneOptions
from millrace_rivals.conttune.surrogate import fit, fit_curve
from millrace_rivals.conttune.tuner import ContTune

KINDS = ("rbf", "rbf_white")

# means of the published observations of Nexmark Q1's mapper on Flink ([ContTune]'s artifact), rows per second
Q1 = {1: 529573, 2: 966827, 4: 1830236, 6: 2535064, 7: 2932321, 8: 3112389, 10: 3733032, 14: 4624681, 15: 4964037}
Q1 |= {20: 6338741, 21: 6445507, 25: 7088207, 26: 7476391}


def training(points: dict[int, float]) -> dict[str, tuple[float, ...]]:
    return {"parallelism": tuple(map(float, points)), "throughput": tuple(map(float, points.values()))}


def leave_one_out(kind: str) -> float:
    errors = []
    for p, ability in Q1.items():
        rest = {q: v for q, v in Q1.items() if q != p}
        errors.append(abs(fit(training(rest), kind).predict([[p]])[0] - ability) / ability)
    return float(np.mean(errors))


def test_authors_gp_errs_on_a_published_level_left_out() -> None:
    assert leave_one_out("rbf") > 0.1


def test_gp_with_noise_predicts_a_published_level_within_a_few_percent() -> None:
    assert leave_one_out("rbf_white") < 0.04


def test_authors_gp_passes_through_its_data_and_falls_to_zero_beyond() -> None:
    found = fit_curve(training({1: 100.0, 2: 190.0, 3: 270.0}), "rbf", 60)
    assert found is not None
    assert found.mean[:3] == pytest.approx([100, 190, 270], rel=0.01)
    assert found.mean[59] < 1.0 and found.std[59] > found.std[0]


@pytest.mark.parametrize("kind", KINDS)
def test_estimator_refitted_from_a_proposal_is_the_curves(kind: str) -> None:
    points = training({1: 100.0, 2: 187.0, 4: 350.0})
    found = fit_curve(points, kind, 4)
    assert found is not None
    assert ContTune(ContTuneOptions.read({"surrogate": kind})).model(points).predict([[1], [2], [4]]) == pytest.approx(
        found.mean[[0, 1, 3]]
    )


def test_estimator_when_stored_then_contains_only_library_types() -> None:
    io = pytest.importorskip("skops.io")
    for kind in KINDS:
        types = io.get_untrusted_types(data=io.dumps(fit(training({1: 100.0, 2: 187.0, 4: 350.0}), kind)))
        assert types and all(t.startswith("skopt.") for t in types)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "points",
    [{1: 100.0}, {1: 100.0, 2: 100.0, 3: 100.0}, {1: 1e-300, 2: 1e300}, {1: 5e-324}, {1: 1e308, 2: 1.7e308}],
)
def test_curve_when_observations_are_odd_then_is_finite_or_none(points: dict[int, float], kind: str) -> None:
    found = fit_curve(training(points), kind, 5)
    assert found is None or (np.isfinite(found.mean).all() and (found.std >= 0).all())


def test_columns_are_the_curve_with_its_band() -> None:
    found = fit_curve(training({1: 100.0, 2: 190.0}), "rbf_white", 5)
    assert found is not None
    columns = found.columns()
    assert columns["parallelism"] == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert all(a <= b <= c for a, b, c in zip(columns["low"], columns["mean"], columns["high"], strict=True))

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.model.chain_rate import chain_rate
from millrace.model.signals import Edge, Signals
from millrace.optimizers.conformance.builders import app_signals, capacity, signals


def chain(arrivals: dict[str, float | None], *edges: Edge) -> Signals:
    apps = tuple(app_signals(2, rate, capacity(2, 100.0), app=name) for name, rate in arrivals.items())
    return replace(signals(apps[0]), apps=apps, edges=edges)


def test_slowest_app_limits_the_chain_by_the_ratios_of_its_edges() -> None:
    seen = chain({"split": 10.0, "count": 38.0}, Edge("split", "count", 40.0, 10.0))
    assert chain_rate(seen, {"split": 50.0, "count": 120.0}) == pytest.approx(30.0)
    assert chain_rate(seen, {"split": 20.0, "count": 120.0}) == pytest.approx(20.0)


def test_figures_of_other_moments_do_not_mislead() -> None:
    seen = chain({"split": 0.0, "count": 38.0}, Edge("split", "count", 40.0, 10.0))
    assert chain_rate(seen, {"split": 50.0, "count": 120.0}) == pytest.approx(30.0)


def test_apps_that_several_feed_get_the_sum() -> None:
    seen = chain({"a": 30.0, "b": 10.0, "join": 25.0}, Edge("a", "join", 15.0, 30.0), Edge("b", "join", 10.0, 10.0))
    assert chain_rate(seen, {"a": 300.0, "b": 300.0, "join": 50.0}) == pytest.approx(80.0)


@pytest.mark.parametrize(
    ("edge", "rates"),
    [
        (Edge("split", "count", None), {"split": 50.0, "count": 120.0}),
        (Edge("split", "count", 40.0, 10.0), {"split": 50.0, "count": None}),
    ],
)
def test_unknown_ratio_or_rate_leaves_the_rate_unknown(edge: Edge, rates: dict[str, float | None]) -> None:
    assert chain_rate(chain({"split": 10.0, "count": 38.0}, edge), rates) is None


def test_one_app_has_its_own_rate() -> None:
    assert chain_rate(signals(app_signals(2, 10.0, None)), {"delays": 70.0}) == 70.0

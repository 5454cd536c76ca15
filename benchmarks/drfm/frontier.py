"""Nodes against overload on bursts and taxis. There, both methods can buy safety with nodes.

A single setting says little here. Each setting of DRF-M is compared with ours at equal overload, interpolated between
two of our own settings. On bursts the benchmark also counts the settings of DRF-M that none of ours matches in nodes,
overload and redirections at once.

Reference: [DRFM] does not specify k, or how full a node may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from benchmarks.drfm.methods import Method, ours, paper
from benchmarks.drfm.scenarios import BENCH, runs, score_records
from benchmarks.record import Record, at_most
from benchmarks.simulation.admission import Score
from millrace.optimizers.drfm.paper.strategies import StrategyOptions
from millrace.optimizers.drfm.stream_placement import HorizonOptions

MARGINS, QUICK_MARGINS = (0.05, 0.15, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0), (0.05, 0.5, 1.0)
AHEADS = (1, 2, 5)
FULL = (0.8, 0.9)

Runs = Callable[[Method], Sequence[Score]]
"""Runs a method on a scenario's loads, and returns the score of each load."""


def bursty(quick: bool, first: int = 0) -> Iterator[Record]:
    """Compare settings on bursts.

    Args:
        quick: One seed, fewer periods, fewer margins.
        first: Seed of the first run.
    """
    points = scores(lambda method: [r.score() for r in runs("bursty", method, quick, first)], quick)
    yield from comparison("bursty_frontier", points)
    yield undominated("bursty_frontier", points)


def scores(run: Runs, quick: bool) -> Mapping[str, Sequence[Score]]:
    """Return the scores of each setting by name; names of ours start with ``horizon``.

    Args:
        run: Runs a method on the loads of a scenario.
        quick: Fewer margins.
    """
    methods = {
        **{f"drfm_k{k}": paper("drfm", StrategyOptions(ahead=k)) for k in AHEADS},
        **{f"drfm_full_{f:g}": paper("drfm", StrategyOptions(full=f)) for f in FULL},
        **{f"horizon_z{z:g}": ours(HorizonOptions(margin=z)) for z in (QUICK_MARGINS if quick else MARGINS)},
    }
    return {name: run(method) for name, method in methods.items()}


def comparison(scenario: str, points: Mapping[str, Sequence[Score]]) -> Iterator[Record]:
    """Yield the figures of all settings, and our nodes at the overload of each DRF-M setting.

    Args:
        scenario: Name of the scenario.
        points: Scores by setting.
    """
    for name, of_setting in points.items():
        yield from score_records(scenario, name, of_setting)
    mine, theirs = _split(points)
    nodes, overload, _ = np.array(sorted(mine.values(), key=lambda point: point[1])).T
    for name, rival in theirs.items():
        value, figure, n = float(np.interp(rival[1], overload, nodes)), f"above_optimum_at_{name}", len(points[name])
        target, fewer = at_most(value, float(rival[0]))
        # beyond our calmest setting there is no comparison
        holds = fewer and bool(overload[0] <= rival[1])
        yield Record(BENCH, scenario, "horizon", figure, value, "ratio", n=n, target=target, holds=holds)


def undominated(scenario: str, points: Mapping[str, Sequence[Score]]) -> Record:
    """Return the share of DRF-M's settings that none of our settings matches or beats in all three figures.

    Args:
        scenario: Name of the scenario.
        points: Scores by setting.
    """
    mine, theirs = _split(points)
    left = [p for p in theirs.values() if not any((q <= p).all() for q in mine.values())]
    return Record(BENCH, scenario, "horizon", "undominated_ratio", len(left) / len(theirs), "ratio", n=len(theirs))


def _split(points: Mapping[str, Sequence[Score]]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    means = {
        name: np.mean([[s.above_optimum_ratio, s.overloaded_ratio, s.redirections_per_period] for s in scores], axis=0)
        for name, scores in points.items()
    }
    mine = {name: point for name, point in means.items() if name.startswith("horizon")}
    return mine, {name: point for name, point in means.items() if name not in mine}

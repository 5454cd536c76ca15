"""Panes on workers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.drfm.pane_assignment import Assignment, least_loaded, paper_rule, plain
from millrace.model.errors import MillraceError

RULES = (plain, paper_rule, least_loaded)
SIZES = st.lists(st.floats(0, 1e4), max_size=60)


def load_ratio(found: Assignment, workers: int, panes: int, observed: int) -> float:
    loads = found.loads(workers, panes, observed)
    return float((loads.std(axis=1) / loads.mean(axis=1)).mean())


@pytest.mark.parametrize("rule", RULES)
@settings(deadline=None)
@given(sizes=SIZES, workers=st.integers(1, 9))
def test_rule_when_panes_are_split_then_no_row_is_lost_or_doubled(
    rule: Callable[..., Assignment], sizes: list[float], workers: int
) -> None:
    found = rule(np.array(sizes), workers)
    by_pane = np.bincount(found.pane, found.rows, len(sizes)) if len(found.pane) else np.zeros(len(sizes))
    assert np.allclose(by_pane, sizes)
    assert ((found.worker >= 0) & (found.worker < workers)).all()
    assert (np.diff(found.pane) >= 0).all()


@settings(deadline=None)
@given(sizes=st.lists(st.floats(1, 1e4), min_size=1, max_size=80), workers=st.integers(1, 9))
def test_least_loaded_keeps_workers_within_the_largest_part(sizes: list[float], workers: int) -> None:
    found = least_loaded(np.array(sizes), workers)
    loads = np.bincount(found.worker, found.rows, workers)
    assert loads.max() - loads.min() <= found.rows.max() + 1e-6


def test_plain_when_panes_arrive_then_workers_take_turns() -> None:
    found = plain(np.array([5.0, 1.0, 7.0]), 2)
    assert found.worker.tolist() == [0, 1, 0]
    assert found.loads(2, 3, 3).tolist() == [[12.0, 1.0]]
    assert found.loads(2, 3, 2).tolist() == [[5.0, 1.0]], "a span that is not whole is left out"


def test_paper_rule_passes_on_the_excess_over_the_average() -> None:
    found = paper_rule(np.array([10.0, 10.0, 10.0, 35.0, 10.0]), 4)
    assert [(p, w, r) for p, w, r in zip(found.pane, found.worker, found.rows, strict=True) if p == 3] == [
        (3, 3, 10.0),
        (3, 0, 10.0),
        (3, 1, 10.0),
        (3, 2, 5.0),
    ]


def test_paper_rule_gives_a_worker_of_small_panes_more_of_them() -> None:
    found = paper_rule(np.array([10.0, 10.0, 2.0, 3.0, 9.0]), 4)
    assert found.worker.tolist() == [0, 1, 2, 2, 2]


def test_rules_when_rates_burst_then_ours_balances_best_and_plain_worst() -> None:
    draws = np.random.default_rng(7)
    rates = draws.uniform(18e3, 22e3, 320) * np.where(draws.random(320) < 0.1, 5, 1)
    panes = np.repeat(rates / 4, 4)
    ratios = [load_ratio(rule(panes, 16), 16, len(panes), 128) for rule in RULES]
    assert ratios[0] > 2 * ratios[1] > 2 * ratios[2]


@pytest.mark.parametrize("rule", RULES[1:])
def test_rule_when_a_burst_follows_a_lull_then_parts_are_bounded(rule: Callable[..., Assignment]) -> None:
    found = rule(np.array([5e-324, 1e9]), 3)
    assert 3 <= len(found.pane) <= 1 + 16 * 3 + 1


@pytest.mark.parametrize("rule", RULES)
def test_rule_when_input_is_bad_then_reports_it_or_counts_it_as_none(rule: Callable[..., Assignment]) -> None:
    for rows in ([-1.0], [np.inf]):
        with pytest.raises(MillraceError, match="rows"):
            rule(np.array(rows), 2)
    with pytest.raises(MillraceError, match="workers"):
        rule(np.array([1.0]), 0)
    assert rule(np.array([np.nan, 4.0]), 2).rows.sum() == 4
    assert len(rule(np.array([]), 2).pane) == 0

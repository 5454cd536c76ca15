"""How long rows wait from a first source to the last app, by positions in the tables between the apps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.graph.lag import AppProgress, Steps, behind, heads, recover_s, waits

Points = Sequence[tuple[float, float]]


def steps(points: Points) -> Steps:
    """Return rows that are added at some times, as a total."""
    at, rows = np.array(points, dtype=float).T
    return Steps(at, np.cumsum(rows))


def app(sink: str, **reads: Points) -> AppProgress:
    return AppProgress({source: steps(points) for source, points in reads.items()}, sink)


def test_row_is_done_when_the_last_app_has_read_all_that_came_from_it() -> None:
    # the first batch makes 4 words of 2 sentences, the second 12 of 3; the counting app reads the 12 in two batches
    apps = {
        "count": app("counts", words=[(6, 4), (12, 8), (15, 4)]),
        "split": app("words", sentences=[(4, 2), (9, 3)]),
    }
    tables = {"sentences": steps([(1, 2), (5, 2), (7, 1)]), "words": steps([(3.9, 4), (8.9, 12)])}
    assert heads(apps) == ["sentences"]
    assert waits(apps, tables) == [(1, 6), (5, 15), (7, 15)]


def test_rows_that_a_filter_drops_are_done_when_the_filter_has_read_them() -> None:
    apps = {"filter": app("some", all=[(3, 5), (6, 5)]), "last": app("", some=[(9, 1)])}
    tables = {"all": steps([(1, 5), (4, 5)]), "some": steps([(6, 1)])}
    assert waits(apps, tables) == [(1, 3), (4, 9)]


def test_app_that_reads_two_tables_has_to_pass_its_position_in_both() -> None:
    apps = {
        "left": app("l", events=[(2, 10)]),
        "right": app("r", events=[(5, 10)]),
        "join": app("joined", l=[(4, 3), (8, 0)], r=[(4, 0), (8, 2)]),
    }
    tables = {"events": steps([(1, 10)]), "l": steps([(2, 3)]), "r": steps([(5, 2)])}
    assert waits(apps, tables) == [(1, 8)]


def test_each_first_source_has_its_own_commits() -> None:
    apps = {"join": app("joined", a=[(3, 1)], b=[(3, 0), (7, 1)])}
    assert waits(apps, {"a": steps([(1, 1)]), "b": steps([(2, 1)])}) == [(1, 3), (2, 7)]


def test_source_that_is_read_twice_counts_once() -> None:
    apps = {"self_join": app("out", rows=[(3, 8), (6, 12)])}
    assert waits(apps, {"rows": steps([(1, 4), (4, 6)])}) == [(1, 3), (4, 6)]


def test_row_that_was_never_read_waits_forever() -> None:
    apps = {"last": app("", rows=[(3, 4)])}
    assert waits(apps, {"rows": steps([(1, 4), (5, 4)])}) == [(1, 3), (5, np.inf)]


@pytest.mark.parametrize(
    ("waited", "spans"),
    [
        ([(0, 9), (1, 10)], []),
        ([(0, 15), (2, 18)], [(10, 18)]),
        ([(20, 40), (0, 15)], [(10, 15), (30, 40)]),
    ],
)
def test_time_behind_is_when_the_oldest_row_was_older_than_the_goal(waited: Points, spans: Points) -> None:
    assert behind(waited, 10) == spans


@pytest.mark.parametrize(
    ("spans", "expected"), [([], 0), ([(90, 95)], 0), ([(110, 120), (125, 140)], 40), ([(210, 220)], 0)]
)
def test_recovery_ends_when_rows_of_the_step_were_last_too_old(spans: Points, expected: float) -> None:
    assert recover_s(spans, step=100, until=200) == expected

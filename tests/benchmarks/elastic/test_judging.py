"""Whether a rival does better."""

from __future__ import annotations

import pytest

from benchmarks.elastic.judging import Cost, beats, better_rivals

OURS = Cost(1000.0, 5.0)


@pytest.mark.parametrize(
    ("rival", "better"),
    [
        (Cost(900.0, 4.0), True),
        (Cost(900.0, 5.0), True),  # cheaper, and as late
        (Cost(1000.0, 0.0), True),  # as expensive, and earlier
        (Cost(900.0, 30.0), False),
        (Cost(1200.0, 0.0), False),
        (Cost(990.0, 4.5), False),  # that is noise
    ],
)
def test_rival_wins_if_no_worse_in_both_and_better_in_one(rival: Cost, better: bool) -> None:
    assert beats(rival, OURS) is better


def test_one_round_in_which_a_rival_is_better_counts() -> None:
    rounds = [
        {"live": OURS, "fixed": Cost(1500.0, 0.0), "ratio": Cost(900.0, 60.0)},
        {"live": OURS, "fixed": Cost(900.0, 0.0), "ratio": Cost(900.0, 60.0)},
        {"fixed": Cost(1.0, 0.0)},
    ]
    assert better_rivals(rounds, "live") == 1

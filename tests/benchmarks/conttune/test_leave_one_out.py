from __future__ import annotations

import pytest

from benchmarks.conttune.leave_one_out import SURROGATES, errors

TABLE = {p: (0.98 * 100 * p**0.8, 1.02 * 100 * p**0.8) for p in (1, 2, 4, 8, 16)}


def test_errors_when_a_surrogate_knows_the_law_then_are_zero() -> None:
    assert errors(TABLE, lambda training, p: 100 * p**0.8) == pytest.approx([0.0] * len(TABLE))


def test_errors_when_a_level_is_predicted_then_the_surrogate_has_not_seen_it() -> None:
    asked = []

    def predict(training: object, p: int) -> float:
        assert isinstance(training, dict) and float(p) not in training["parallelism"]
        asked.append(p)
        return 100 * p**0.8 * 1.1

    assert errors(TABLE, predict) == pytest.approx([0.1] * len(TABLE))
    assert asked == list(TABLE)


def test_errors_when_abilities_follow_a_power_law_then_flow_beats_the_authors_by_far() -> None:
    ours, theirs = (sum(errors(TABLE, SURROGATES[name])) for name in ("flow", "conttune_3"))
    assert ours / len(TABLE) < 0.05 and ours < theirs / 3

from __future__ import annotations

import json

from optimizers.conttune.memory import BIG, Notes, read, write
from tests.optimizers.builders import capacity


def test_notes_when_written_as_json_then_are_read_back() -> None:
    notes = {"a": Notes(8, BIG, 12.5, True, {1: (0.5, 0.6), 16: (1.0,)}), "b": Notes()}
    assert read(json.loads(json.dumps(write(notes)))) == notes


def test_notes_when_not_understood_then_are_as_if_never_written() -> None:
    assert read({}) == {} and read({"operators": [1]}) == {}
    broken = {
        "operators": {
            "a": {
                "p_max": -1,
                "phase": "small",
                "rate": "7",
                "waited": 1,
                "fixed_s": {"x": [1], "2": ["y", -1.0], "3": [2.0]},
            }
        }
    }
    assert read(broken) == {"a": Notes(fixed_s={3: (2.0,)})}


def test_fixed_cost_when_measured_often_then_the_most_recent_are_kept() -> None:
    notes = Notes()
    for value in (1.0, 2.0, 3.0):
        notes = notes.with_fixed(capacity(4, 100.0, fixed_s=value), 2)
    assert notes.fixed_s == {4: (2.0, 3.0)}
    assert notes.with_fixed(None, 2) == notes

from __future__ import annotations

import json

from optimizers.conttune.paper.flows import Ratio
from optimizers.conttune.paper.memory import BIG, Notes, read, write
from optimizers.conttune.rest import Step


def test_notes_when_written_as_json_then_are_read_back() -> None:
    for notes in (
        Notes(8, BIG, Step({"a/map": 3}, {"a/map": 12.5}), {("in", "map"): Ratio(0.5, 7)}),
        Notes(),
    ):
        assert read(json.loads(json.dumps(write(notes)))) == notes


def test_notes_when_not_understood_then_are_as_if_never_written() -> None:
    assert read({}) == Notes()
    broken = {
        "p_max": -1,
        "phase": "small",
        "step": {"levels": {"a": 0, "b": "x"}, "rates": [1]},
        "ratios": [["in", "map", "x", 1], ["in"], 7, ["in", "join", 2.0, -3], ["a", "b", float("nan"), 1]],
    }
    assert read(broken) == Notes(ratios={("in", "join"): Ratio(2.0, 0)})

from __future__ import annotations

from include.model.protocols import Optimizer
from optimizers.registry import create
from tests.optimizers.conformance import Conformance


class TestDs2(Conformance):
    def make(self) -> Optimizer:
        return create("ds2", {})


class TestDs2AsPublished(Conformance):
    def make(self) -> Optimizer:
        return create("ds2", {"rates": "producer", "known_arrival_rate": False, "factor": 0.1, "decision_thr": 0.1})


class TestDs2WithStopRule(Conformance):
    def make(self) -> Optimizer:
        return create("ds2", {"stop_rule": True})


class TestDhalion(Conformance):
    def make(self) -> Optimizer:
        return create("dhalion", {})


class TestRandomSearch(Conformance):
    def make(self) -> Optimizer:
        return create("random", {})


class TestRandomSearchWithoutArrivalRate(Conformance):
    def make(self) -> Optimizer:
        return create("random", {"known_arrival_rate": False, "p_max": 4})


class TestDragster(Conformance):
    def make(self) -> Optimizer:
        return create("dragster", {})


class TestDragsterWithOneModel(Conformance):
    def make(self) -> Optimizer:
        return create("dragster", {"per_rate": False})

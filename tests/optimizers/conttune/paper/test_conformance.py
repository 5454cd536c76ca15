from __future__ import annotations

import math

from include.model.protocols import Optimizer
from optimizers.registry import create
from tests.optimizers.conformance import Conformance


class TestLiteral(Conformance):
    def make(self) -> Optimizer:
        return create("conttune", {})


class TestStrong(Conformance):
    def make(self) -> Optimizer:
        return create("conttune", {"preset": "strong"})


class TestLinearAlone(Conformance):
    def make(self) -> Optimizer:
        return create("conttune", {"small": "linear"})


class TestCei(Conformance):
    """Options in a combination of no preset."""

    def make(self) -> Optimizer:
        options = {"acquisition": "cei", "alpha": math.inf, "surrogate": "rbf_white", "big": False, "headroom": 0.2}
        return create("conttune", options)

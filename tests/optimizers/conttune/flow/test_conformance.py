from __future__ import annotations

from include.model.protocols import Optimizer
from optimizers.registry import create
from tests.optimizers.conformance import Conformance


class TestDefault(Conformance):
    def make(self) -> Optimizer:
        return create("flow", {})


class TestOtherwise(Conformance):
    """Every switch the other way, and numbers at the ends of what is allowed."""

    def make(self) -> Optimizer:
        switches = {name: False for name in ("catch_up", "drift", "fluctuation", "whole_windows", "source_splits")}
        numbers = {"risk": 0.5, "slack": 0.0, "reshave": 0.0, "tolerance": 0.0, "reach": 1, "top_k": 1}
        return create("flow", {**switches, **numbers, "proactive": True, "ineffective_thr": 0})

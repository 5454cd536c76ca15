"""Tests that every optimizer must pass: subclass a suite, name the optimizer, and run pytest.

    class TestFollow(TunerConformance):
        name = "follow"

``TunerConformance`` is for tuners that size an app as a whole, ``DagConformance`` for those that also size operators
with a p of their own, ``OptimizerConformance`` for any other role. The suites treat the optimizer as a black box:
Signals in, Proposal out. They need pytest and Hypothesis.
"""

from millrace.optimizers.conformance.dag_suite import DagConformance
from millrace.optimizers.conformance.optimizer_suite import OptimizerConformance
from millrace.optimizers.conformance.tuner_suite import TunerConformance

__all__ = ["DagConformance", "OptimizerConformance", "TunerConformance"]

"""The quality gate: Great Expectations over the telemetry since the last look, before any optimizer sees it."""

from include.control.evaluation import BadRow, Failure, GateResult
from include.control.quality.gate import check

__all__ = ["BadRow", "Failure", "GateResult", "check"]

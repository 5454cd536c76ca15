"""The quality gate: Great Expectations over the telemetry since the last look, before any optimizer sees it."""

from include.control.quality.gate import check
from include.control.quality.result import BadRow, Failure, GateResult

__all__ = ["BadRow", "Failure", "GateResult", "check"]

"""The quality gate: Great Expectations over the telemetry since the last evaluation, before any optimizer sees it."""

from millrace.control.quality.docs import DataDocs
from millrace.control.quality.quality_gate import QualityGate

__all__ = ["DataDocs", "QualityGate"]

"""What a running app tells about itself, measured inside Spark from an unchanged script."""

from include.runtime.telemetry.attach import Telemetry, attach

__all__ = ["Telemetry", "attach"]

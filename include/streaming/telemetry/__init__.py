"""What a running app tells about itself, measured inside Spark from an unchanged script."""

from include.streaming.telemetry.attach import Telemetry, attach

__all__ = ["Telemetry", "attach"]

"""Attach telemetry to a Spark session, before the user's script starts its queries."""

from __future__ import annotations

import logging
from pathlib import Path

from pyspark.sql import SparkSession

from include.lake.store import Lake
from include.runtime.identity import AppIdentity
from include.runtime.telemetry.host import HostCpu
from include.runtime.telemetry.listener import TelemetryListener
from include.runtime.telemetry.writer import Writer

LOG = logging.getLogger(__name__)
EVENTS_TIMEOUT_MS = 5000


class Telemetry:
    """The telemetry of one driver.

    Attributes:
        host: Processor time of the host and of the driver's processes.

    Args:
        spark: The session whose queries are measured.
        identity: The app.
        lake_root: The lake's folder.
        period_s: Interval between two looks, seconds.
    """

    def __init__(self, spark: SparkSession, identity: AppIdentity, lake_root: Path, period_s: float) -> None:
        self.host = host = HostCpu()
        self._spark = spark
        self._writer = Writer(Lake(lake_root), identity, period_s, host)
        self._listener = TelemetryListener(spark, identity, self._writer, host)
        spark.streams.addListener(self._listener)

    def flush(self) -> bool:
        """Commit all batches that ended before this call; False if the lake could not be written."""
        self._await_events()
        return self._writer.flush()

    def close(self) -> None:
        """Await what Spark still has to tell, commit it and end; safe to repeat, and after the session's end."""
        self._await_events()
        try:
            self._spark.streams.removeListener(self._listener)
        except Exception as error:
            LOG.debug("The session is gone: %s", error)
        self._writer.close()

    def _await_events(self) -> None:
        # Spark hands events over from a queue: those of the last batch are lost unless it is empty
        try:
            self._spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(EVENTS_TIMEOUT_MS)
        except Exception as error:
            LOG.debug("Events may be missing: %s", error)


def attach(spark: SparkSession, identity: AppIdentity, lake_root: Path, period_s: float) -> Telemetry:
    """Measure every query of ``spark`` from now on; see :class:`Telemetry`."""
    return Telemetry(spark, identity, lake_root, period_s)

"""The telemetry of one driver: its batches, executors and samples of keys, until it ends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from millrace.lake.store import Lake
from millrace.model.attached_driver import AttachedDriver
from millrace.model.key_map import KeySample
from millrace.model.telemetry import ExecutorRun
from millrace.runtime.arrival_watch import ArrivalWatch
from millrace.runtime.query_events import QueryEvents
from millrace.runtime.telemetry.batches import AppIdentity
from millrace.runtime.telemetry.host import HostCpu
from millrace.runtime.telemetry.listener import TelemetryListener
from millrace.runtime.telemetry.partitions import PartitionSampler
from millrace.runtime.telemetry.writer import Writer

LOG = logging.getLogger(__name__)
EVENTS_TIMEOUT_MS = 5000
SAMPLES_TIMEOUT_S = 5.0


class Telemetry:
    """The telemetry of one driver.

    Attributes:
        host: CPU time of the host and of the driver's processes.
        watch: Arrivals between two evaluations.

    Args:
        spark: A session of the application whose queries are measured.
        identity: The app.
        lake: The lake's folder or URI.
        period_s: Interval between two evaluations, seconds.
    """

    def __init__(self, spark: SparkSession, identity: AppIdentity, lake: str | Path, period_s: float) -> None:
        local = spark.sparkContext.master.startswith("local")
        self.host = host = HostCpu(application=None if local else spark.sparkContext.applicationId)
        self._spark = spark
        self._writer = Writer(Lake(lake), identity, period_s, host)
        self._sampler = None if local else PartitionSampler(spark, self._writer, self._writer.interval_s)
        self.watch = ArrivalWatch()
        self._listener = TelemetryListener(spark, identity, self._writer, host, self._sampler, self.watch)
        self._writer.tick = self._listener.tick
        self._events = QueryEvents(spark, self._listener)

    def describe_by(self, describe: Callable[[], AttachedDriver | None]) -> None:
        """Let each heartbeat contain what a driver says of itself if Millrace did not start it.

        Args:
            describe: Called in the thread that commits. If it raises ``Fenced``, nothing is written from then on.
        """
        self._writer.describe = describe

    @property
    def is_fenced(self) -> bool:
        """Whether a later driver has taken over."""
        return self._writer.is_fenced

    def hurry(self) -> None:
        """Let the next commit happen within a second; returns at once."""
        self._writer.hurry()

    def resized(self, version: int, slots: int) -> None:
        """Record that batches have other slots from now on."""
        self._listener.identity = replace(self._listener.identity, version=version, slots=slots)

    def executor(self, run: ExecutorRun) -> None:
        """Record an executor that registered or ended."""
        self._writer.add_executor(run)
        if self._sampler is not None and run.executor_number is not None:
            self._sampler.number(run.executor, run.executor_number)

    def keys(self, sample: KeySample) -> None:
        """Record a sample of keys."""
        self._writer.add_keys(sample)

    def flush(self) -> bool:
        """Commit all batches that ended before this call; False if the lake could not be written."""
        self._await_events()
        return self._writer.flush()

    def close(self) -> None:
        """Wait for Spark's last events, commit them and end; safe to repeat and after the session has ended."""
        self._await_events()
        self._events.close()
        if self._sampler is not None:
            self._sampler.close()
        self._writer.close()

    def _await_events(self) -> None:
        # Spark delivers events from a queue: unless it is empty, those of the last batch are lost
        try:
            self._spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(EVENTS_TIMEOUT_MS)
        except Exception as error:
            LOG.debug("Events may be missing: %s", error)
        if self._sampler is not None:
            self._sampler.flush(SAMPLES_TIMEOUT_S)

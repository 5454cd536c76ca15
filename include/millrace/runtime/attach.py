"""Attach a driver that somebody else started: telemetry and the agent run in it, and meet Millrace in the lake only.

Everything happens in a thread of its own. Whatever fails there is said once and tried again; the job never notices.
Liveness is a heartbeat in ``telemetry/apps``. The first heartbeat claims a generation by a Delta transaction, which the
table grants to one driver only, so of two drivers that attach at the same moment one is refused.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from millrace.lake.attached_drivers import Heartbeat, claim, newest_heartbeat
from millrace.lake.deployments import DeploymentFollower
from millrace.lake.driver_hosts import TABLE, this_host
from millrace.lake.fenced_table import Fenced
from millrace.lake.object_stores import FORMS
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.row_codec import app_row
from millrace.lake.store import Lake
from millrace.model.attached_driver import AttachedDriver, settings_of
from millrace.model.deployment import Deployment
from millrace.model.errors import Conflict, MillraceError
from millrace.model.failure import reason
from millrace.model.telemetry import AppMetrics
from millrace.run_folder import generation
from millrace.run_folder.arguments import recognise
from millrace.runtime.agent.start import start_agent
from millrace.runtime.attached_app import AttachedApp
from millrace.runtime.running_queries import RunningQueries
from millrace.runtime.telemetry.batches import AppIdentity
from millrace.runtime.telemetry.driver_telemetry import Telemetry
from millrace.runtime.telemetry.writer import SHORTEST_INTERVAL_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)
RETRY_S = 5.0
"""Time between two attempts to attach."""
LOOK_S = 1.0
"""Time between two looks for a Deployment, before the first."""
BATCHES = "telemetry/batches"
_ATTACHED: dict[tuple[str, str], Attachment] = {}
"""What this process has attached, by application and pipeline."""


class Attachment:
    """Attaches the driver of one application to a pipeline.

    Args:
        spark: Any session of the application.
        pipeline: Name of the pipeline; its only app has the same name.
        lake: The lake's folder or URI.
        period_s: Interval between two evaluations, seconds.
    """

    def __init__(self, spark: SparkSession, pipeline: str, lake: str, period_s: float) -> None:
        self._spark, self._pipeline, self._lake, self._period_s = spark, pipeline, lake, period_s
        self._ended = threading.Event()
        self._telemetry: Telemetry | None = None
        self._app: AttachedApp | None = None
        self._driver: AttachedDriver | None = None
        self._slots, self._version = 1, 0
        self._resized: datetime | None = None
        self._unable: Callable[[], str] = str
        self._follows = False
        self._number: int | None = None
        self._said = self._awaits = ""

    def start(self) -> None:
        """Attach in the background, and detach when the application or this process ends."""
        context: Any = self._spark.sparkContext
        stop = context.stop

        @functools.wraps(stop)
        def stop_after_last_events() -> None:
            self.close()
            stop()

        context.stop = stop_after_last_events
        atexit.register(self.close)
        threading.Thread(target=self._run, name="millrace-attach", daemon=True).start()

    def close(self) -> None:
        """Commit the last telemetry and a last heartbeat that names the end; safe to repeat."""
        self._ended.set()
        telemetry, self._telemetry = self._telemetry, None
        try:
            if telemetry is not None:
                telemetry.close()
        except Exception as error:
            LOG.warning("%s: the last telemetry is missing: %s", self._pipeline, reason(error))

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._attach()
                return
            except _Refused as refusal:
                self._say(str(refusal))
            except MillraceError as error:
                self._say(f"this driver is not attached. {error}")
            except Exception as error:
                self._say(f"this driver is not attached: {reason(error)}")
            self._ended.wait(RETRY_S)

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            LOG.warning("%s: %s The job continues.", self._pipeline, sentence.rstrip(".") + ".")
        self._said = sentence

    def _attach(self) -> None:
        """Claim the pipeline and start telemetry; a repeated call does what is left to do."""
        lake = _lake(self._lake)
        app = self._app = self._app or AttachedApp(self._spark)
        if self._number is None:
            self._unable, self._slots = app.unable, max(1, app.slots)
            self._number = self._claim(lake)
        if self._telemetry is None:
            identity = AppIdentity(self._pipeline, self._pipeline, self._number, 1, self._slots, 0)
            self._telemetry = Telemetry(self._spark, identity, self._lake, self._period_s)
            self._telemetry.describe_by(functools.partial(self._heartbeat, Lake(self._lake), self._number))
            LOG.info("%s: attached as generation %d: %s", self._pipeline, self._number, app.name)
        if self._ended.is_set():  # the script was faster
            self.close()
            return
        self._adapt(app, self._telemetry, self._number)

    def _adapt(self, app: AttachedApp, telemetry: Telemetry, number: int) -> None:
        """Start the agent once there is a Deployment, if the executors can be changed."""
        if unable := self._unable():
            LOG.warning("%s: telemetry and advice only: %s", self._pipeline, unable)
            return
        if advice := app.advice():
            LOG.warning("%s: %s", self._pipeline, advice)
        follower = DeploymentFollower(Lake(self._lake), self._pipeline)
        newest = self._first_deployment(follower)
        if newest is not None:
            identity = AppIdentity(self._pipeline, self._pipeline, number, newest.version, self._slots, 0)
            self._follow(app, telemetry, identity, newest, follower)

    def _follow(
        self,
        app: AttachedApp,
        telemetry: Telemetry,
        identity: AppIdentity,
        newest: Deployment,
        follower: DeploymentFollower,
    ) -> None:
        """Start the agent, which changes executors and placement as the newest Deployment says."""
        content = app.content(newest.apps[self._pipeline])

        def read() -> Deployment | None:
            return None if telemetry.is_fenced or self._ended.is_set() else follower.read()

        def report(version: int, slots: int) -> None:
            self._version, self._slots, self._resized = version, slots, datetime.now(UTC)
            telemetry.hurry()  # the control plane waits for it

        def awaits(sentence: str) -> None:
            self._awaits = sentence
            telemetry.hurry()

        self._slots = max(1, app.slots)
        telemetry.resized(newest.version, self._slots)
        present = replace(identity, slots=self._slots)
        queries, lake = RunningQueries(self._spark), Lake(self._lake)
        self._follows = True
        agent = start_agent(self._spark, present, content, read, lake, telemetry, queries, report, awaits, self._slots)
        self._unable = lambda: agent.problem

    def _first_deployment(self, follower: DeploymentFollower) -> Deployment | None:
        """Wait until the pipeline is launched; None if the driver ends before that."""
        while not self._ended.wait(LOOK_S):
            try:
                newest = follower.read()
            except MillraceError as error:
                self._say(f"the lake cannot be read yet: {error}")
                continue
            if newest is not None and self._pipeline in newest.apps:
                return newest
            self._say(
                "it has not been launched, so only telemetry is written. Launch it: ./millrace trigger "
                f"{self._pipeline}"
            )
        return None

    def _claim(self, lake: Lake) -> int:
        """Write the first heartbeat under a new generation and return it.

        Raises:
            _Refused: If another driver is attached and alive, or attached at the same moment.
            MillraceError: If the lake cannot be read or written.
        """
        now, mark = datetime.now(UTC), claim(self._pipeline, self._pipeline)
        last = newest_heartbeat(lake, self._pipeline, self._pipeline, now)
        if last is not None and last.is_alive(now):
            raise _Refused(_alive(last))
        number = 1 + max(
            0 if last is None else last.generation,
            lake.committed(TABLE, mark),
            lake.committed(BATCHES, generation.fence(self._pipeline, self._pipeline)),
            ReconfigurationStore(lake).newest_generation(self._pipeline, self._pipeline),
        )
        row = AppMetrics(self._pipeline, self._pipeline, now, number, None, None, 0.0, this_host(), self._describe(()))
        try:
            if lake.append(TABLE, [app_row(row)], {mark: number}, lasting=True) is not None:
                return number
        except Conflict:
            pass
        raise _Refused("this driver is not attached, because another one has just attached.")

    def _heartbeat(self, lake: Lake, number: int) -> AttachedDriver:
        """Return what the next heartbeat contains.

        Raises:
            Fenced: If a later driver has claimed the pipeline, because this one was silent for too long.
        """
        newest = lake.committed(TABLE, claim(self._pipeline, self._pipeline))
        if newest > number:
            raise Fenced(f"{self._pipeline}: generation {newest} has taken over from generation {number}")
        deployed = self._deployed(lake)
        if not self._follows and not self._ended.is_set():
            self._note_slots(0 if deployed is None else deployed.version)
        return self._describe(() if deployed is None else settings_of(deployed.apps[self._pipeline]))

    def _note_slots(self, version: int) -> None:
        """Note how many slots a driver has whose executors Millrace does not change, or not yet."""
        app, telemetry = self._app, self._telemetry
        if app is None or telemetry is None:
            return
        slots = max(1, app.slots)
        if self._unable():
            self._version = version  # all that it will ever do of it
        if slots != self._slots:
            self._slots = slots
            telemetry.resized(max(1, version), slots)

    def _deployed(self, lake: Lake) -> Deployment | None:
        deployed = DeploymentFollower(lake, self._pipeline).read()
        return None if deployed is None or self._pipeline not in deployed.apps else deployed

    def _describe(self, names: Iterable[str]) -> AttachedDriver:
        app = self._app
        assert app is not None  # noqa: S101 - set before the first heartbeat
        ended = self._ended.is_set()
        if not ended or self._driver is None:
            self._driver = AttachedDriver(
                name=app.name,
                version=self._version,
                slots=self._slots,
                every_s=max(SHORTEST_INTERVAL_S, self._period_s / 3),
                settings=app.settings(names),
                resized=self._resized,
                unable=self._unable(),
                spark_application=app.spark_application,
                awaits=self._awaits,
            )
        return replace(self._driver, ended=ended)


class _Refused(Exception):  # noqa: N818 - an outcome: try again later
    """Another driver is attached."""


def _lake(where: str) -> Lake:
    """Return the lake.

    Raises:
        MillraceError: If it is a relative path, which means another folder in each process, or has another scheme.
    """
    if "://" not in where and not Path(where).is_absolute():
        raise MillraceError("lake", where, FORMS, "Name the control plane's lake; a folder is an absolute path.")
    return Lake(where)


def _alive(last: Heartbeat) -> str:
    return (
        f"this driver is not attached, because {last.driver.name} is, and is alive. Stop that driver, or attach this "
        f"one to another pipeline. This one takes over once the other has been silent for {last.silence_s:.0f} s."
    )


def start(spark: SparkSession, pipeline: str, lake: str, period_s: float) -> None:
    """Attach the driver of an application to a pipeline; returns at once.

    Args:
        spark: Any session of the application.
        pipeline: Name of the pipeline.
        lake: The lake's folder or URI.
        period_s: The spec's ``period_s``, seconds.
    """
    if recognise(psutil.Process(os.getpid()).cmdline()) is not None:
        LOG.info("%s: Millrace started this driver, so it needs no attach.", pipeline)
        return
    key = spark.sparkContext.applicationId, pipeline
    if key in _ATTACHED:
        LOG.info("%s: this driver has called attach before.", pipeline)
        return
    _ATTACHED[key] = Attachment(spark, pipeline, lake, period_s)
    _ATTACHED[key].start()

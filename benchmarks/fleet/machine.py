"""What a fleet on this machine needs around it: a home without a cluster, a reconciler, and a watch on its drivers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.background import in_background
from benchmarks.elastic.cluster import Cluster, ExecutorWatch
from benchmarks.elastic.measure import Cores
from benchmarks.elastic.pipeline import Pipeline
from millrace.environment.home import Home
from millrace.local.stack import secrets
from millrace.local.stack.progress import say
from millrace.model.errors import Conflict, MillraceError, NotReady
from millrace.run_folder.discovery import LiveDriver, find

EVERY_S = 3.0
"""Seconds between two rounds of the reconciler; each takes processor time from the nodes."""
PATIENCE_S = 5.0
"""How long a round watches a start, as of ``./millrace runner``."""
LOOK_S = 1.0


def without_cluster(root: Path) -> Cluster:
    """Return a cluster that does not run: every driver is its own Spark.

    Args:
        root: Folder for everything.
    """
    return Cluster(root, "", secrets.load(Home(root / "cluster")), ExecutorWatch(lambda: None), lambda _: None)


@contextmanager
def kept_running(pipeline: Pipeline) -> Iterator[None]:
    """Reconcile a pipeline all the time while the context lasts: a driver that ends is started again."""

    def keep(ended: threading.Event) -> None:
        while not ended.wait(EVERY_S):
            try:
                pipeline.reconciler().reconcile(wait_s=0, patience_s=PATIENCE_S)
            except (NotReady, Conflict):
                continue  # the controller reconciles
            except MillraceError as error:
                say(f"    {error}")

    with in_background(keep, "reconciler"):
        yield


@dataclass
class DriverWatch:
    """Records the drivers of a pipeline as they come and go.

    Attributes:
        drivers: Returns those that are alive.
    """

    drivers: Callable[[], Sequence[LiveDriver]]
    _begin: dict[tuple[str, int], float] = field(default_factory=dict)
    _end: dict[tuple[str, int], float] = field(default_factory=dict)

    def look(self, now: float) -> None:
        """Note which drivers are alive.

        Args:
            now: Seconds since 1970.
        """
        for driver in self.drivers():
            key = driver.arguments.app, driver.generation
            if key not in self._begin:
                self._begin[key] = now - max((process.age_s() for process in driver.processes), default=0.0)
            self._end[key] = now

    def lives(self) -> list[Cores]:
        """Return the time from the start of each driver until it was last seen, as one core each."""
        return [Cores(begin, self._end[key], 1) for key, begin in self._begin.items()]


@contextmanager
def watched(pipeline: Pipeline) -> Iterator[DriverWatch]:
    """Watch the drivers of a pipeline while the context lasts."""
    watch = DriverWatch(lambda: find(pipeline.home.run / "drivers", pipeline.spec.name))

    def look(ended: threading.Event) -> None:
        while not ended.wait(LOOK_S):
            with suppress(OSError):
                watch.look(time.time())

    with in_background(look, "driver-watch"):
        yield watch

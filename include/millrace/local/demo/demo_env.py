"""The demo's environment: its own home, the feed, the pipeline's drivers, and how to stop all of them."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from millrace.atomic_file import write_atomically
from millrace.environment.home import Home
from millrace.environment.jars import CONNECTORS
from millrace.local.feeds.kafka_broker import KafkaBroker, stop
from millrace.local.feeds.kafka_topic import make_topic
from millrace.local.feeds.replay_clock import Clock
from millrace.local.stack import lifecycle
from millrace.local.stack.setup import ensure_jars
from millrace.model.errors import MillraceError
from millrace.pipelines.catalog import EXAMPLES
from millrace.places import SOURCES
from millrace.run_folder import discovery, driver_records
from millrace.run_folder.process import ProcessId

KILL_AFTER_S = 20.0
POLL_S = 0.2


@dataclass(frozen=True)
class Example:
    """A pipeline that the demo can show.

    Attributes:
        pipeline: Its name.
        folder: Folder of its spec; None if it is built in.
        topic: Kafka topic that it reads; None if it reads a Delta table.
        start_hour: Hour of the day at which its replay starts.
        days: Days that it replays.
    """

    pipeline: str
    folder: Path | None = None
    topic: str | None = None
    start_hour: int = 21
    days: float = 0.54


DELAYS = Example("delays")
DELAYS_KAFKA = Example("delays_kafka", EXAMPLES / "kafka", "flights")
MEDALLION = Example("medallion", EXAMPLES / "medallion", start_hour=20, days=1.1)
"""Starts in the evening: by the morning, the throughput of every app is known, so one decision sizes all of them."""
SHOWN: Mapping[tuple[str, str], Example] = {
    ("delays", "delta"): DELAYS,
    ("delays", "kafka"): DELAYS_KAFKA,
    ("medallion", "delta"): MEDALLION,
}
"""Each by the options ``--pipeline`` and ``--source``."""
SERVERS_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
"""As in the example's spec and script."""


@dataclass(frozen=True)
class DemoEnv:
    """The demo's own home inside the user's home: it starts clean and touches no other pipeline.

    Args:
        home: The demo's home.
        example: The pipeline that it shows.
    """

    home: Home
    example: Example = DELAYS

    @classmethod
    def inside(cls, home: Home, example: Example = DELAYS) -> DemoEnv:
        """Return the environment inside a user's home."""
        return cls(Home(home.root / "demo"), example)

    @property
    def pipeline(self) -> str:
        """Name of the pipeline."""
        return self.example.pipeline

    @property
    def run_dir(self) -> Path:
        """Folder of the drivers' records."""
        return self.home.run / "drivers"

    @property
    def source(self) -> Path:
        """Folder of the source table."""
        return self.home.root / "data" / "flights"

    @property
    def results(self) -> Path:
        """Folder of the results table."""
        return self.home.root / "data" / "delays"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the environment: two demos in it would clear each other's tables.

        Raises:
            MillraceError: If another demo holds the lock.
        """
        self.home.root.parent.mkdir(parents=True, exist_ok=True)
        with (self.home.root.parent / "demo.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                remedy = "Wait for the other demo, stop it, or set MILLRACE_HOME to another folder."
                raise MillraceError("demo", "already running", "one demo at a time", remedy) from None
            yield

    def start_broker(self, partitions: int) -> None:
        """Start a broker with the topic, and pass its address to all processes started from now on.

        Args:
            partitions: Partitions of the topic.

        Raises:
            MillraceError: If the broker does not start.
        """
        ensure_jars(CONNECTORS["kafka"])
        broker = KafkaBroker.make(self.home.root / "kafka")
        write_atomically(self._broker_record, json.dumps(asdict(broker.start())))
        make_topic(broker.address, self.example.topic or "", partitions)
        os.environ[SERVERS_VARIABLE] = broker.address

    def clear(self) -> None:
        """Stop whatever an earlier demo left running, after ``--keep`` or a kill, and delete its data."""
        self.stop()
        shutil.rmtree(self.home.root, ignore_errors=True)
        self.home.ensure()

    def stop(self) -> None:
        """Stop the stack, then the drivers (in reverse order, the stack would restart them), then the broker."""
        if self.home.run.is_dir():
            lifecycle.down(self.home)
            for example in SHOWN.values():
                self._stop_drivers(example.pipeline)
        if self._broker_record.is_file():
            stop(ProcessId(**json.loads(self._broker_record.read_text(encoding="utf-8"))))
            self._broker_record.unlink()

    @property
    def _broker_record(self) -> Path:
        return self.home.run / "kafka.json"

    def start_feed(self, clock: Clock, parts: int) -> subprocess.Popen[bytes]:
        """Start the replay as a process that ends together with this one."""
        settings = [f"--{key.replace('_', '-')}={value}" for key, value in asdict(clock).items()]
        if self.example.topic:
            settings += [f"--topic={self.example.topic}", f"--bootstrap-servers={os.environ[SERVERS_VARIABLE]}"]
        with (self.home.logs / "feed.log").open("ab") as log:
            return subprocess.Popen(
                [
                    *(sys.executable, "-m", "millrace.local.feeds.flights", "--with-parent"),
                    *(f"--table={self.source}", f"--parts={parts}", *settings),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=SOURCES,
                env={**os.environ, "PYTHONPATH": str(SOURCES)},
                start_new_session=True,  # only the demo gets Ctrl-C, and stops the feed in order
            )

    def feed_error(self) -> str:
        """Return the last line of the feed's log."""
        return next(iter(lifecycle.tail(self.home.logs / "feed.log", 1)), "")

    def _stop_drivers(self, pipeline: str) -> None:
        """Stop every driver of a pipeline, at a batch boundary if it reaches one in time."""
        for driver in discovery.find(self.run_dir, pipeline):
            record = driver_records.read(self.run_dir, pipeline, driver.arguments.app, driver.generation)
            python = discovery.python_driver(record)
            for process in [python] if python else driver.processes:
                process.signal(signal.SIGTERM)
        if not _await(lambda: not discovery.find(self.run_dir, pipeline), KILL_AFTER_S):
            for driver in discovery.find(self.run_dir, pipeline):
                for process in driver.processes:
                    process.signal(signal.SIGKILL)
            _await(lambda: not discovery.find(self.run_dir, pipeline), KILL_AFTER_S)


def stop_feed(feed: subprocess.Popen[bytes]) -> None:
    """Stop the replay between two commits."""
    feed.terminate()
    try:
        feed.wait(KILL_AFTER_S)
    except subprocess.TimeoutExpired:
        feed.kill()
        feed.wait()


def _await(done: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (is_done := done()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return is_done

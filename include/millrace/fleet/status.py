"""What a node reports about its streams: a file next to the records of its app's drivers, replaced when it changes.

The run folder holds what a driver says about itself, and the command line, the console and the reconciler read it
there. Only the present state matters. Rows in the lake would need a commit per change, and the telemetry has the
batches anyway.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from millrace.atomic_file import read_if_there, write_atomically
from millrace.fleet.streams import Phase
from millrace.model.codec import from_json, to_json
from millrace.model.failure import in_sentence
from millrace.run_folder import driver_records
from millrace.run_folder.discovery import python_driver
from millrace.run_folder.driver_records import app_dir

FILE = "streams.json"


@dataclass(frozen=True)
class StreamStatus:
    """One stream of a node.

    Attributes:
        stream: Its name, which is also the name of its query.
        phase: Its phase.
        since: When it entered this phase (UTC).
        failures: Failures since its last successful batch; the stream is red if there are any.
        error: The last of these failures, in one line; empty without one.
        retry_at: When a failed stream is started again (UTC); None for others.
        holder: Who holds the lock that it waits for; empty if it waits for none.
        sink: Name of its sink, as telemetry has it; None if its writer does not show it.
        abandoned: Whether another node has to run it now, and only a call to start it is left here.
    """

    stream: str
    phase: Phase
    since: datetime
    failures: int = 0
    error: str = ""
    retry_at: datetime | None = None
    holder: str = ""
    sink: str | None = None
    abandoned: bool = False

    @property
    def sentence(self) -> str:
        """Its state, for a person."""
        if self.phase is Phase.BLOCKED:
            return f"Stream {self.stream} waits for {self.holder}, which still uses its checkpoint."
        if not self.failures:
            return f"Stream {self.stream} is {self.phase}."
        retry = f" It starts again at {self.retry_at:%H:%M:%S} UTC." if self.retry_at else ""
        times = "" if self.failures == 1 else f" {self.failures} times"
        return f"Stream {self.stream} failed{times}: {in_sentence(self.error)}.{retry}"


@dataclass(frozen=True)
class NodeStatus:
    """The streams of one node.

    Attributes:
        generation: Start number of its driver.
        version: Version of the Deployment that it follows; 0 before it has read one.
        streams: Its streams by name, including those that it still has to stop.
    """

    generation: int
    version: int
    streams: tuple[StreamStatus, ...]


def write(run_dir: Path, pipeline: str, app: str, status: NodeStatus) -> None:
    """Replace a node's status.

    Raises:
        MillraceError: If the folder cannot be written.
    """
    write_atomically(app_dir(run_dir, pipeline, app) / FILE, to_json(status), key="run folder")


def read(run_dir: Path, pipeline: str, app: str) -> NodeStatus | None:
    """Return a node's last status; None if there is none. It is out of date if the driver of its generation is gone.

    Raises:
        MillraceError: If it cannot be read.
    """
    text = read_if_there(app_dir(run_dir, pipeline, app) / FILE, key="run folder")
    if text is not None:
        with contextlib.suppress(ValueError):
            return from_json(NodeStatus, text)
    return None


def phases(run_dir: Path, pipeline: str, app: str, version: int) -> Mapping[str, Phase]:
    """Return the phase of each stream of a node; empty if the node is not alive or has not read a version yet.

    Args:
        run_dir: Folder of the drivers' records.
        pipeline: Name of the pipeline.
        app: The node.
        version: Version of the Deployment that the node must have read, or a later one.

    Raises:
        MillraceError: If its status cannot be read.
    """
    told = read(run_dir, pipeline, app)
    if told is None or told.version < version:
        return {}
    python = python_driver(driver_records.read(run_dir, pipeline, app, told.generation))
    if python is None or not python.alive():
        return {}
    return {stream.stream: stream.phase for stream in told.streams}

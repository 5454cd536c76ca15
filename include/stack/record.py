"""The stack's runtime record: who runs, since when, on which ports; how another process finds it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from include.stack.files import write_atomically

STATES = ("waiting", "starting", "healthy", "unhealthy", "done", "backing off", "stopped")


@dataclass
class Process:
    """A process, told apart from a later one with the same number by its start time.

    Args:
        pid: Its number.
        created: Its start time, as psutil gives it (Unix seconds).
    """

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> Process:
        """Take down a running process.

        Raises:
            psutil.NoSuchProcess: It has ended.
        """
        return cls(pid, psutil.Process(pid).create_time())

    def alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        try:
            found = psutil.Process(self.pid)
            # psutil derives the time from the boot time, which may be corrected by fractions of a second
            return abs(found.create_time() - self.created) < 1.0 and found.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


@dataclass
class ServiceRecord:
    """What is known of one service.

    Args:
        state: One of STATES.
        since: When it came into this state (Unix seconds).
        process: The leader of its process group; kept after its end until the group was stopped.
        restarts: How often it was started again.
    """

    state: str = "waiting"
    since: float = 0.0
    process: Process | None = None
    restarts: int = 0


@dataclass
class StackRecord:
    """The whole stack.

    Args:
        supervisor: The supervising process.
        started: When it started (Unix seconds).
        ports: Chosen port by service.
        services: Record by service.
        healthy_s: Seconds from start until all were healthy, None before.
    """

    supervisor: Process
    started: float
    ports: dict[str, int] = field(default_factory=dict)
    services: dict[str, ServiceRecord] = field(default_factory=dict)
    healthy_s: float | None = None

    @property
    def running(self) -> bool:
        """Whether its supervisor runs."""
        return self.supervisor.alive()

    @property
    def healthy(self) -> bool:
        """Whether its supervisor runs and every service is healthy or done."""
        return self.running and all(s.state in ("healthy", "done") for s in self.services.values())

    def write(self, path: Path) -> None:
        """Write it for other processes to read."""
        write_atomically(path, json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, path: Path) -> StackRecord | None:
        """Read what another process wrote.

        Args:
            path: The record's file.

        Returns:
            The record, None where there is none or it cannot be understood.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            services = {
                name: ServiceRecord(**{**one, "process": Process(**one["process"]) if one["process"] else None})
                for name, one in content.pop("services").items()
            }
            return cls(**{**content, "supervisor": Process(**content["supervisor"]), "services": services})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

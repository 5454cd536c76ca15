"""The stack's runtime record: which processes run, since when, on which ports. Other processes find the stack by it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from millrace.atomic_file import write_atomically
from millrace.run_folder.process import ProcessId

STATES = ("waiting", "starting", "healthy", "unhealthy", "done", "backing off", "stopped")


@dataclass
class ServiceRecord:
    """Record of one service.

    Args:
        state: One of STATES.
        since: When it entered this state (Unix seconds).
        process: The leader of its process group; kept after its end until the group is stopped.
        restarts: How often it was restarted.
    """

    state: str = "waiting"
    since: float = 0.0
    process: ProcessId | None = None
    restarts: int = 0

    @property
    def well(self) -> bool:
        """Whether the service is doing, or has done, its job."""
        return self.state in ("healthy", "done")


@dataclass
class StackRecord:
    """The whole stack.

    Args:
        supervisor: The supervising process.
        started: When it started (Unix seconds).
        ports: Chosen port by service.
        services: Record by service.
        healthy_s: Seconds from start until all services were healthy, None before.
    """

    supervisor: ProcessId
    started: float
    ports: dict[str, int] = field(default_factory=dict)
    services: dict[str, ServiceRecord] = field(default_factory=dict)
    healthy_s: float | None = None

    @property
    def running(self) -> bool:
        """Whether its supervisor is running."""
        return self.supervisor.alive()

    @property
    def healthy(self) -> bool:
        """Whether its supervisor is running and every service is healthy or done."""
        return self.running and all(s.well for s in self.services.values())

    def write(self, path: Path) -> None:
        """Write the record for other processes."""
        write_atomically(path, json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, path: Path) -> StackRecord | None:
        """Read a record that another process wrote.

        Returns:
            The record; None if there is none or it cannot be parsed.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            services = {
                name: ServiceRecord(**{**one, "process": ProcessId(**one["process"]) if one["process"] else None})
                for name, one in content.pop("services").items()
            }
            return cls(**{**content, "supervisor": ProcessId(**content["supervisor"]), "services": services})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

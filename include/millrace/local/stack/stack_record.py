"""The stack's runtime record: who runs, since when, on which ports; how another process finds it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from millrace.atomic_file import write_atomically
from millrace.run_folder.process import ProcessId

STATES = ("waiting", "starting", "healthy", "unhealthy", "done", "backing off", "stopped")


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
    process: ProcessId | None = None
    restarts: int = 0

    @property
    def well(self) -> bool:
        """Whether it does, or did, what it is there for."""
        return self.state in ("healthy", "done")


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

    supervisor: ProcessId
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
        return self.running and all(s.well for s in self.services.values())

    def write(self, path: Path) -> None:
        """Write it for other processes to read."""
        write_atomically(path, json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, path: Path) -> StackRecord | None:
        """Read what another process wrote.

        Returns:
            The record, None where there is none or it cannot be understood.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            services = {
                name: ServiceRecord(**{**one, "process": _process(one["process"]) if one["process"] else None})
                for name, one in content.pop("services").items()
            }
            return cls(**{**content, "supervisor": _process(content["supervisor"]), "services": services})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None


def _process(content: Mapping[str, Any]) -> ProcessId:
    # releases up to 0.1 wrote the start as ``created``, and nothing else of it
    return ProcessId(**{"started" if key == "created" else key: value for key, value in content.items()})

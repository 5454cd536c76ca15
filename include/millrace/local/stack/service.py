"""Definition of a service of the local stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.local.stack.loopback import Health


@dataclass(frozen=True)
class Service:
    """One process group of the stack.

    Args:
        name: Its name in status and logs.
        argv: Program and arguments.
        env: Variables on top of the environment.
        health: Its check; None for a service that does its work and exits.
        after: Names that must be healthy, or done, before it starts.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    health: Health | None = None
    after: tuple[str, ...] = ()

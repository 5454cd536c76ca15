"""One part of the output of ``./millrace status``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType


@dataclass(frozen=True)
class Status:
    """A part of the status.

    Attributes:
        data: What ``--json`` prints.
        table: What a person sees.
        well: True if nothing in it needs attention.
    """

    data: Any
    table: RenderableType
    well: bool = True

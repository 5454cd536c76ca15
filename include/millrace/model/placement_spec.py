"""The section ``placement`` of a pipeline spec: state partitions are placed on the app's executors."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from millrace.model.spec_base import Strict


class Placement(Strict):
    """On which executors the state partitions of the app sit."""

    options: dict[str, Any] = Field(default_factory=dict, description="Options of the optimizer albic")

"""The section ``placement`` of a pipeline spec: place state partitions on the app's executors."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from millrace.model.spec_base import Strict


class Placement(Strict):
    """Places the app's state partitions on its executors."""

    options: dict[str, Any] = Field(default_factory=dict, description="Options of the optimizer albic")

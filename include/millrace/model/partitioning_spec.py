"""The section ``partitioning`` of a pipeline spec: maps of keys to workers that its running queries follow."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from millrace.model.spec_base import Strict


class Partitioning(Strict):
    """Keeps the work of skewed keys even, in queries that spread rows with ``followed``."""

    options: dict[str, Any] = Field(default_factory=dict, description="Options of the optimizer waterfill")

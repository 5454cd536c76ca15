"""Checksum files of a table's log, which Spark's writer leaves after each commit and ours does not.

A checksum contains the table's metadata. Without it, Spark reads the log with a job of its own whenever it looks for
new commits, which costs more than the rest of a small micro-batch.

Reference: Delta Transaction Log Protocol, section "Version Checksum File".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LOG = "_delta_log"


class Checksums:
    """Writes the checksums of a table that only grows and has one writer.

    Args:
        table: Its folder; the table is at version 0.
    """

    def __init__(self, table: Path) -> None:
        self._log = table / LOG
        first = {kind: content for action in self._actions(0) for kind, content in action.items()}
        self._same = {"numMetadata": 1, "numProtocol": 1, "metadata": first["metaData"], "protocol": first["protocol"]}
        self._files = self._bytes = 0
        self._write(0)

    def add(self, version: int) -> None:
        """Write the checksum of the next version."""
        for action in self._actions(version):
            if "add" in action:
                self._files, self._bytes = self._files + 1, self._bytes + action["add"]["size"]
        self._write(version)

    def _write(self, version: int) -> None:
        content = {**self._same, "tableSizeBytes": self._bytes, "numFiles": self._files}
        unfinished = self._log / ".unfinished.crc"
        unfinished.write_text(json.dumps(content))
        unfinished.rename(self._log / f"{version:020}.crc")

    def _actions(self, version: int) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self._log / f"{version:020}.json").read_text().splitlines()]

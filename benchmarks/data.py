"""Find recorded data that benchmarks replay; missing data is reported, never made up."""

from __future__ import annotations

import os
from pathlib import Path

from millrace.places import REPO


def folder() -> Path:
    """Return the data folder: ``MILLRACE_DATA``, by default the shared one next to the repository."""
    return Path(os.environ.get("MILLRACE_DATA") or REPO.parent / "shared" / "data")

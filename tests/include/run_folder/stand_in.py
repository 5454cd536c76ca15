"""Processes that look like drivers in the process table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millrace.run_folder.arguments import DriverArguments


@contextmanager
def driver(
    run_dir: Path, pipeline: str, app: str | None = None, generation: int = 1
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process with the arguments of a driver, at version 1 on one slot, inside the block."""
    script = run_dir.parent / "run_script.py"
    run_dir.mkdir(parents=True, exist_ok=True)
    script.write_text("import time\ntime.sleep(600)\n")
    times = (60.0, 120.0, 60.0)
    arguments = DriverArguments(pipeline, app or pipeline, generation, 1, 1, 0, run_dir, "/lake", *times, script)
    process = subprocess.Popen([sys.executable, str(script), *arguments.argv()])
    try:
        yield process
    finally:
        process.kill()
        process.wait()

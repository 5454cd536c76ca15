"""Run the programs that prepare the peer, and report a failure in one line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.flink.unavailable import Unavailable


def run(argv: Sequence[str | Path], deadline_s: float, name: str, env: Mapping[str, str] | None = None) -> None:
    """Run a program to its end.

    Args:
        argv: Program and arguments.
        deadline_s: The program is ended after this time, seconds.
        name: Its name in messages.
        env: Additional environment variables.

    Raises:
        Unavailable: It failed or took too long.
    """
    try:
        ended = subprocess.run(
            [str(a) for a in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=deadline_s,
            env={**os.environ, **(env or {})},
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{name} was not done after {deadline_s:g} s") from None
    if ended.returncode:
        said = [line.strip() for line in ended.stdout.splitlines() if line.strip()]
        # the first error of Ivy or javac is the cause; the rest is advice
        cause = next((line for line in said if "error" in line.lower()), said[-1] if said else "no output")
        raise Unavailable(f"{name} failed with exit code {ended.returncode}: {cause}")

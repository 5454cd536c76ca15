"""Shows what set-up and the stack are doing, step by step with seconds; needs nothing but the standard library."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


def say(text: str, stream: TextIO | None = None) -> None:
    """Print one line for a person; on stderr, so that a command's own output stays clean.

    Args:
        text: The line.
        stream: Where to, stderr by default.
    """
    print(text, file=stream or sys.stderr, flush=True)


@contextmanager
def step(title: str, stream: TextIO | None = None) -> Iterator[None]:
    """Show a step's seconds while it runs and once it is done; on a terminal they tick.

    Args:
        title: What happens, such as ``Python packages``.
        stream: Where to, stderr by default.
    """
    out = stream or sys.stderr
    started = time.monotonic()
    done = threading.Event()

    def line(mark: str) -> str:
        return f"  {mark} {title} {time.monotonic() - started:5.1f} s"

    def tick() -> None:
        while not done.wait(0.2):
            print("\r" + line("·"), end="", file=out, flush=True)

    ticker = threading.Thread(target=tick, daemon=True) if out.isatty() else None
    if ticker:
        ticker.start()
    else:
        say(f"  · {title} ...", out)
    mark = "✗"
    try:
        yield
        mark = "✓"
    finally:
        done.set()
        if ticker:
            ticker.join()
        say(("\r" if ticker else "") + line(mark), out)

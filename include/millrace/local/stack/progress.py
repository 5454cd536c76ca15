"""Show the progress of setup and the stack, step by step with seconds, and run setup's programs.

Needs only the standard library. A program's output goes to a log, and an interrupted setup leaves no program running
unnoticed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


def say(text: str, stream: TextIO | None = None) -> None:
    """Print one line for a person, on stderr to keep a command's own output clean."""
    print(text, file=stream or sys.stderr, flush=True)


@contextmanager
def step(title: str, stream: TextIO | None = None) -> Iterator[None]:
    """Show a step's seconds while it runs and when it is done; in a terminal they count up."""
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


class ProgramFailed(Exception):  # noqa: N818 - what happened, as NotReady and Conflict
    """A program ended with an error.

    Args:
        argv: Program and arguments.
        code: Its exit code.
        tail: The end of its output.
    """

    def __init__(self, argv: Sequence[str], code: int, tail: str) -> None:
        self.argv, self.code, self.tail = tuple(argv), code, tail
        super().__init__(f"{Path(argv[0]).name} ended with exit code {code}\n{tail}")


def run(
    argv: Sequence[str | Path], log: Path, *, env: Mapping[str, str] | None = None, lock_fd: int | None = None
) -> None:
    """Run a program to its end, appending its output to a log.

    Args:
        argv: Program and arguments.
        log: File that gets stdout and stderr.
        env: Variables on top of the current environment.
        lock_fd: Descriptor of the setup lock. The child inherits it, so the lock stays held while a child outlives a
            killed setup.

    Raises:
        ProgramFailed: The program's exit code is not 0.
    """
    words = [str(a) for a in argv]
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with log.open("ab") as out:
        out.write(("\n$ " + " ".join(words) + "\n").encode())
        out.flush()
        begin = out.tell()
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            pass_fds=() if lock_fd is None else (lock_fd,),
        )
        try:
            code = child.wait()
        except BaseException:
            child.terminate()
            child.wait()
            raise
    if code:
        with log.open("rb") as written:
            written.seek(begin)
            lines = written.read().decode(errors="replace").strip().splitlines()
        raise ProgramFailed(words, code, "\n".join(lines[-8:]))

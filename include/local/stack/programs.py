"""Runs a program of set-up: its output goes to a log, and it never outlives an interrupted set-up unnoticed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class ProgramFailed(Exception):  # noqa: N818 - what happened, as NotReady and Conflict
    """A program ended with an error.

    Args:
        argv: What was run.
        code: Its exit code.
        tail: The end of what it printed.
    """

    def __init__(self, argv: Sequence[str], code: int, tail: str) -> None:
        self.argv, self.code, self.tail = tuple(argv), code, tail
        super().__init__(f"{Path(argv[0]).name} ended with exit code {code}\n{tail}")


def run(
    argv: Sequence[str | Path], log: Path, *, env: Mapping[str, str] | None = None, lock_fd: int | None = None
) -> None:
    """Run a program to its end with its output appended to a log.

    Args:
        argv: Program and arguments.
        log: File that gets stdout and stderr.
        env: Variables on top of the current environment.
        lock_fd: Descriptor of the set-up's lock. The child inherits it, so that the lock stays held
            while a child lives on after its set-up was killed.

    Raises:
        ProgramFailed: The program's exit code is not 0.
    """
    words = [str(a) for a in argv]
    log.parent.mkdir(parents=True, exist_ok=True)
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

"""The process's single JVM with Flink's autoscaler, accessed by JSON lines."""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.flink import installation
from millrace.environment.home import Home
from millrace.model.errors import MillraceError

ANSWER_S = 60.0
CLOSE_S = 5.0


class Jvm:
    """A running harness.

    It ends when its stdin closes, so it never outlives the process that started it. Calls from several threads take
    turns; a forked process starts its own.

    Args:
        argv: The command that starts it (:func:`benchmarks.flink.installation.command`).
        log: File to which its stderr is appended.
        answer_s: Longest wait for an answer, seconds.
    """

    _shared: ClassVar[Jvm | None] = None
    _starting: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, argv: Sequence[str], log: Path, answer_s: float = ANSWER_S) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self._answer_s = answer_s
        self._owner = os.getpid()
        self._one_at_a_time = threading.Lock()
        self._read = bytearray()
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0
            )
        atexit.register(self.close)

    @classmethod
    def shared(cls) -> Jvm:
        """Return this process's JVM, started by the first call.

        Raises:
            Unavailable: It cannot run on this machine.
        """
        with cls._starting:
            if cls._shared is None or not cls._shared.usable():
                cls._shared = cls(installation.command(), Home.from_env().logs / "flink-autoscaler.log")
            return cls._shared

    def usable(self) -> bool:
        """Whether it belongs to this process and is still running."""
        return self._owner == os.getpid() and self._process.poll() is None

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Send a question and wait for its answer.

        Args:
            question: A JSON object; see ``Harness.java`` for the possible questions.

        Returns:
            The answer.

        Raises:
            MillraceError: The autoscaler failed, or its JVM died or did not answer in time. The JVM is then ended,
                because a late answer would be taken for the next question's.
        """
        line = json.dumps(question, allow_nan=False).encode() + b"\n"
        with self._one_at_a_time:
            try:
                self._send(line)
                answer = json.loads(self._line(time.monotonic() + self._answer_s))
            except BaseException:
                self.close()
                raise
        if "error" in answer:
            raise self._failed(answer["error"])
        return dict(answer)

    def close(self) -> None:
        """End it; do nothing if it has ended, or if this is a forked copy of the process that started it."""
        if self._owner != os.getpid():
            return
        atexit.unregister(self.close)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            # unbuffered, so a write may be partial
            view = memoryview(line)
            while view:
                view = view[self._process.stdin.write(view) or 0 :]
        except (OSError, ValueError):
            raise self._died() from None

    def _line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        while b"\n" not in self._read:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise self._failed(f"no answer within {self._answer_s:g} s")
            more = self._process.stdout.read(1 << 16)
            if not more:
                raise self._died()
            self._read += more
        line, _, rest = bytes(self._read).partition(b"\n")
        self._read = bytearray(rest)
        return line

    def _died(self) -> MillraceError:
        try:
            code: object = self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            code = "none yet"
        return self._failed(f"its JVM ended, exit code {code}")

    def _failed(self, what: str) -> MillraceError:
        return MillraceError("flink autoscaler", what, "an answer", f"Its own words are in {self.log}.")

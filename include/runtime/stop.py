"""A request to stop: sticky, noticed whatever the main thread is doing, and never acted on inside a signal handler."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType


class StopRequest:
    """Turns SIGTERM into an event and calls ``act`` in a thread of its own.

    The main thread mostly waits for an answer of the JVM on its own connection, which a signal handler must not
    use, and the script may replace the handler: the signal's number therefore goes through a pipe, written by
    the interpreter itself.

    Args:
        act: What to do, once, after the request was noticed.
    """

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._noticed = threading.Event()

    @property
    def requested(self) -> bool:
        """Whether the driver was asked to stop; never false again."""
        return self._noticed.is_set()

    def install(self) -> None:
        """Start listening; main thread only."""
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(read, True)

        def pass_on(number: int, _frame: FrameType | None) -> None:
            os.write(write, bytes([number]))

        signal.signal(signal.SIGTERM, pass_on)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        threading.Thread(target=self._listen, args=(read,), name="millrace-stop", daemon=True).start()

    def _listen(self, pipe: int) -> None:
        while os.read(pipe, 1) != bytes([signal.SIGTERM]):
            pass
        self._noticed.set()
        self._act()

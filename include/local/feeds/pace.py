"""When the next tick of a replay is due, and when a replay is to stop."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

from include.local.feeds.replay import Clock


def due(clock: Clock, first: int, wait: Callable[[float], bool], say: Callable[[str], None]) -> Iterator[int]:
    """Give the number of each tick when it is due, up to the closing one, ``clock.ticks``.

    Args:
        clock: The replay's settings.
        first: The tick to go on with; the time that those before it took has passed.
        wait: Waits the seconds given, and returns True if the replay is to stop: no more ticks come then.
        say: Takes one line of progress.
    """
    begun = time.monotonic() - first * clock.tick_s
    for number in range(first, clock.ticks + 1):
        if wait(max(0.0, begun + number * clock.tick_s - time.monotonic())):
            say(f"stopped before tick {number} of {clock.ticks}; the same command goes on from there")
            return
        yield number


def stoppable(with_parent: bool) -> Callable[[float], bool]:
    """Return a wait that ends early, and says True, once the process is asked to stop.

    Args:
        with_parent: Also stop when the process that started this one has ended.
    """
    stop, parent = threading.Event(), os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return lambda seconds: stop.wait(seconds) or (with_parent and os.getppid() != parent)

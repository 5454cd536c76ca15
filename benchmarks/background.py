"""Work in a thread while a block runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def in_background(work: Callable[[threading.Event], object], name: str) -> Iterator[None]:
    """Run a function in a thread while the block runs, and wait for it to return.

    Args:
        work: The function; the event that it gets is set at the end of the block.
        name: Name of the thread.
    """
    ended = threading.Event()
    thread = threading.Thread(target=work, args=(ended,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()

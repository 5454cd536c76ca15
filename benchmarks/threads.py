"""Limit linear algebra to one thread: on a tuner's small matrices more threads only wait for each other."""

from __future__ import annotations

from typing import Any


def one_thread() -> Any:
    """Limit all linear algebra of this process to one thread.

    Returns:
        A context manager: leaving it ends the limit.
    """
    # only loaded libraries can be limited, and scipy has its own, separate from numpy's
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(1)

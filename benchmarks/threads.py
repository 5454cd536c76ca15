"""Keeps linear algebra to one thread: on matrices as small as a tuner's more of them only wait for each other."""

from __future__ import annotations

from typing import Any


def one_thread() -> Any:
    """Limit all linear algebra of this process to one thread.

    Returns:
        A context manager: leaving it ends the limit.
    """
    # a library that is not loaded yet cannot be limited, and numpy's is not scipy's
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(1)

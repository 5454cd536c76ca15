from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.threads import one_thread


@pytest.fixture(autouse=True, scope="package")
def _one_thread() -> Iterator[None]:
    """On matrices this small more threads only wait for each other, and for those of other tests."""
    with one_thread():
        yield

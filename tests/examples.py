"""The number of examples that a property is tried with."""

from __future__ import annotations

import os

from hypothesis import settings

QUICK = os.environ.get("MILLRACE_TEST_PROFILE") == "quick"
"""Whether ``./millrace test`` runs without ``--slow``."""
SHARE, LEAST = 4, 10


def examples(whole: int) -> settings:
    """Return the settings of a property: a quick run tries a quarter of the examples that CI tries."""
    return settings(deadline=None, max_examples=min(whole, max(LEAST, whole // SHARE)) if QUICK else whole)

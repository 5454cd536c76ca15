"""The flights of 2013, read once per process because it takes seconds."""

from __future__ import annotations

from functools import cache

import pandas as pd

from millrace.local.feeds import nycflights


@cache
def flights() -> pd.DataFrame:
    """Return the flights, which callers must not change."""
    return nycflights.flights()

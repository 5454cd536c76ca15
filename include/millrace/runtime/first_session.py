"""Notice the first session that a script creates, without creating one before it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession


def on_first_session(then: Callable[[SparkSession], None]) -> None:
    """Call a function with the first session that the script creates, whatever the script sets before that.

    Args:
        then: Called with the session before the script gets it.
    """
    original = SparkSession.Builder.getOrCreate

    @functools.wraps(original)
    def get_or_create(builder: Any) -> SparkSession:
        session = original(builder)
        SparkSession.Builder.getOrCreate = original
        then(session)
        return session

    SparkSession.Builder.getOrCreate = get_or_create

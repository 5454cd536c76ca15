"""Raise the batch limits that a script sets on its sources, as a Deployment says.

Only limits that the script itself sets are raised, and never lowered: a script that asks for more than Millrace found
to be necessary gets more.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any

from millrace.model.batch_limits import option_named, plain_value

LOG = logging.getLogger(__name__)


def raise_limits(limits: Mapping[str, int]) -> None:
    """Let every reader of a stream that is built from now on have at least these limits, if it has any.

    Args:
        limits: Values by option (:data:`millrace.model.batch_limits.OPTIONS`); empty to change nothing.
    """
    if not limits:
        return
    from pyspark.sql.streaming.readwriter import DataStreamReader

    option, options = DataStreamReader.option, DataStreamReader.options

    @functools.wraps(option)
    def raised_option(reader: Any, key: str, value: Any) -> Any:
        return option(reader, key, _raised(limits, key, value))

    @functools.wraps(options)
    def raised_options(reader: Any, **given: Any) -> Any:
        return options(reader, **{key: _raised(limits, key, value) for key, value in given.items()})

    DataStreamReader.option, DataStreamReader.options = raised_option, raised_options


def _raised(limits: Mapping[str, int], key: str, value: Any) -> Any:
    name = option_named(key)
    given, wanted = plain_value(value), limits.get(name or "")
    if name is None or given is None or wanted is None or wanted <= given:
        return value
    LOG.warning("%s is %d instead of %s: Millrace raises it because batches were too small", name, wanted, value)
    return wanted

"""Former name of :mod:`millrace.windows.partitioning`."""

import warnings

from millrace.windows.partitioning import *  # noqa: F403 - all that was published under this name

warnings.warn(
    "include.streaming.partitioning is now millrace.windows.partitioning; the former name goes with the next release.",
    DeprecationWarning,
    stacklevel=2,
)

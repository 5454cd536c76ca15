"""Former name of :mod:`include.windows.partitioning`."""

import warnings

from include.windows.partitioning import *  # noqa: F403 - all that was published under this name

warnings.warn(
    "include.streaming.partitioning is now include.windows.partitioning; the former name goes with the next release.",
    DeprecationWarning,
    stacklevel=2,
)

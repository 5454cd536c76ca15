"""Former name of :mod:`include.windows.panes`."""

import warnings

from include.windows.panes import *  # noqa: F403 - all that was published under this name

warnings.warn(
    "include.streaming.panes is now include.windows.panes; the former name goes with the next release.",
    DeprecationWarning,
    stacklevel=2,
)

"""Former name of :mod:`millrace.windows.panes`."""

import warnings

from millrace.windows.panes import *  # noqa: F403 - all that was published under this name

warnings.warn(
    "include.streaming.panes is now millrace.windows.panes; the former name goes with the next release.",
    DeprecationWarning,
    stacklevel=2,
)

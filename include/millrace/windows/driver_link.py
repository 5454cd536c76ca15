"""The link of this process to Millrace, which a driver that Millrace started connects before it runs the script.

Nothing is imported here, so a driver pays nothing for a link that its script does not use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from millrace.model.key_map import HotKey, KeyMap


class DriverLink(Protocol):
    """What a running query gets from Millrace and tells it."""

    def newest(self, name: str) -> tuple[KeyMap | None, int | None]:
        """Return the deployed map of a name, and the app's slots; None for what is not there.

        Raises:
            MillraceError: If the lake cannot be read.
        """
        ...

    def report(
        self,
        name: str,
        columns: Sequence[str],
        workers: int,
        revision: int | None,
        rows: int,
        hot: Sequence[HotKey],
    ) -> None:
        """Take a sample of keys, as in :class:`millrace.model.key_map.KeySample`; returns at once."""
        ...


_connected: list[DriverLink] = []


def connect(link: DriverLink | None) -> None:
    """Set the link, or remove it."""
    _connected[:] = [] if link is None else [link]


def connected() -> DriverLink | None:
    """Return the link; None if Millrace did not start this process."""
    return _connected[0] if _connected else None

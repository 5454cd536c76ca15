"""Checkpoint folders of streams: any name gets a folder of its own, on any file system, and the folder shows the name.

Lower-case letters, digits and ``-``, ``_``, ``.`` stay. Every other byte of the name in UTF-8 becomes ``~`` and two
hexadecimal digits. So folders do not depend on upper and lower case, on Unicode normalisation, or on decoding of ``%``.
Long names continue in a folder inside the folder: its parent ends with ``~``, which no complete name does.
"""

from __future__ import annotations

import string

SAFE = frozenset(string.ascii_lowercase + string.digits + "-_.")
NOT_FIRST = frozenset("_.")
"""Hadoop hides files that start with these, and ``..`` is a folder's parent."""
MARK = "~"
LONGEST = 200
"""Longest name of one folder. File systems allow 255 bytes, and Spark adds a few to some files' names."""


def folder_of(stream: str) -> str:
    """Return the relative path of a stream's checkpoint folder."""
    pieces = [""]
    for byte in stream.encode("utf-8", "surrogatepass"):
        unit = _unit(byte, first=not pieces[-1])
        if len(pieces[-1]) + len(unit) >= LONGEST:
            pieces[-1] += MARK
            pieces.append("")
            unit = _unit(byte, first=True)
        pieces[-1] += unit
    return "/".join(pieces) or MARK


def _unit(byte: int, *, first: bool) -> str:
    char = chr(byte)
    return char if char in SAFE and not (first and char in NOT_FIRST) else f"{MARK}{byte:02x}"

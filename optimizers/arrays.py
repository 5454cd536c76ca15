"""Array types of problems and plans, and the check of what a problem is made from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from millrace.model.errors import MillraceError

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]


def check_every(name: str, values: NDArray[Any], holds: Bools, allowed: str) -> None:
    """Refuse an array with a value that is not allowed or not finite.

    Args:
        name: Name of the array.
        values: The array.
        holds: Which values are allowed, of the same shape.
        allowed: The allowed values, in words.

    Raises:
        MillraceError: With the first bad value and its place.
    """
    bad = np.argwhere(~(holds & np.isfinite(values)))
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        place = ", ".join(str(i) for i in at)
        raise MillraceError(f"{name}[{place}]", values[at].item(), allowed, "Fix the measurements, or leave them out.")

"""Ineffective scaling: a level from which more slots were measured to bring nothing.

Predicted is what the prior says, PA(a) (b/a)^e; achieved is what was observed at b. A pair of levels a < b shows a
plateau if achieved - PA(a) < share * (predicted - PA(a)) beyond doubt, that is with the standard error of the
difference added to what was achieved. All pairs count, not only neighbours: creeping up a flat curve is seen too. And
a has to be about as able as any level: a curve that flattens late is not flat from where it was steep.

The measurements are the state: nothing else is remembered, and as p = b is measured again, or its measurement gets
old, the verdict changes by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import combinations

from optimizers.conttune.flow.options import Options
from optimizers.conttune.history import Level

AS_ABLE = 0.9
"""Share of the highest ability seen from which a level is on the plateau."""


def ceiling(observed: Sequence[Level], now: datetime, options: Options) -> int | None:
    """Return the level above which more slots bring nothing; None if no such level is known.

    Args:
        observed: Levels by rising p.
        now: Time of the look (UTC).
        options: ``ineffective_thr``, ``ineffective_for_s`` and ``exponent``.
    """
    oldest = now - timedelta(seconds=options.ineffective_for_s)
    most = max((level.ability for level in observed), default=0.0)
    for a, b in combinations(observed, 2):  # by rising a
        if b.latest >= oldest and a.ability >= AS_ABLE * most and _flat(a, b, options):
            return a.parallelism
    return None


def _flat(a: Level, b: Level, options: Options) -> bool:
    predicted = a.ability * (math.pow(b.parallelism / a.parallelism, options.exponent) - 1)
    doubt = math.hypot(a.error, b.error)
    return b.ability - a.ability + doubt < options.ineffective_thr * predicted

"""What of a join's signals the policy goes by, and which of them cannot be gone by.

The paper's utilisation is that of a worker's window. Shedding holds it down, so that it may never reach tau3, however
much is offered: with tau2 = 0.8, tau3 = 0.95 and B = 0.1 it takes 4.2 times the capacity. So workers are added by what
the window would hold had nothing been shed.

Reference: [ESJ-A]. Deviation: trigger ``offered``, and shedding by the mean of the workers with it: after workers
were added the fullest tells of tuples that came before, not of where new ones can go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from include.model.errors import MillraceError
from include.model.join import JoinSignals
from optimizers.esj.options import WINDOW, Options


@dataclass(frozen=True)
class Load:
    """The load of a join's whole window.

    Attributes:
        tuples: What workers are added and taken away by, tuples, >= 0.
        kept: Tuples that the workers keep, >= 0.
        shed_by: Utilisation that shedding goes by, >= 0.
        grows: Whether ``tuples`` are those to come.
    """

    tuples: float
    kept: int
    shed_by: float
    grows: bool = False


def missing(seen: JoinSignals, options: Options) -> str | None:
    """Return what the telemetry has lost of what the policy needs, in words; None if nothing."""
    if not seen.window_tuples or None in seen.window_tuples:
        return "what each worker keeps"
    if seen.offered is None and options.trigger != WINDOW:
        return "what was offered"
    return None


def checked(seen: JoinSignals) -> None:
    """Refuse what cannot have been measured.

    Raises:
        MillraceError: With the figure's name.
    """
    for name, value, least in (
        ("workers", seen.workers, 1),
        ("block", seen.block, 1),
        ("capacity", seen.capacity, 2),
        ("offered", seen.offered, 0),
        ("offered_before", seen.offered_before, 0),
        *(("window_tuples", value, 0) for value in seen.window_tuples),
    ):
        if value is not None and not least <= value < math.inf:
            raise MillraceError(f"join.{name}", value, f"a number >= {least}", "Measure the join anew.")
    if not 0 <= seen.shed <= 1:
        raise MillraceError("join.shed", seen.shed, "0..1", "Measure the join anew.")
    if not 0 < seen.period_s < math.inf:
        raise MillraceError("join.period_s", seen.period_s, "a number > 0", "Measure the join anew.")


def load(seen: JoinSignals, options: Options) -> Load:
    """Return the load of a join of which nothing that is needed is missing."""
    each = [tuples for tuples in seen.window_tuples if tuples is not None]
    kept, m = sum(each), seen.workers
    if options.trigger == WINDOW:
        fullest = max(each)
        return Load(float(fullest * m), kept, fullest / seen.capacity)
    offered = float(seen.offered or 0)
    before = offered if seen.offered_before is None else seen.offered_before
    soon = offered + options.ahead * (offered - before)
    return Load(max(offered, soon), kept, kept / (m * seen.capacity), soon > offered)

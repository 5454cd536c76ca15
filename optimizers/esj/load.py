"""The load of a join as its policy goes by it, and telemetry that it cannot go by.

The paper's utilisation is that of a worker's window. Shedding holds it down, so that it may never reach tau3, however
much is offered: with tau2 = 0.8, tau3 = 0.95 and B = 0.1 it takes 4.2 times the capacity. So workers are added by what
the window would hold had nothing been shed.

Reference: [ESJ-A]. Deviation: trigger ``offered``, and shedding by the mean of the workers with it: after workers
were added the fullest still holds tuples that came before, and says nothing of where new ones can go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from millrace.model.join import JoinSignals
from millrace.optimizers.api import MillraceError
from millrace.optimizers.esj.options import EsjOptions


@dataclass(frozen=True)
class Load:
    """The load of a join's whole window.

    Attributes:
        tuples: What workers are added and taken away by, tuples, >= 0.
        kept: Tuples that the workers keep, >= 0.
        shed_by: Utilisation that shedding goes by, >= 0.
        is_growing: Whether ``tuples`` are those to come.
    """

    tuples: float
    kept: int
    shed_by: float
    is_growing: bool = False


def missing_figure(measured: JoinSignals, options: EsjOptions) -> str | None:
    """Return for people what the telemetry has lost of what the policy needs; None if nothing."""
    if not measured.window_tuples or None in measured.window_tuples:
        return "what each worker keeps"
    if measured.offered is None and options.trigger != "window":
        return "what was offered"
    return None


def check_figures(measured: JoinSignals) -> None:
    """Refuse what cannot have been measured.

    Raises:
        MillraceError: With the figure's name.
    """
    for name, value, least in (
        ("workers", measured.workers, 1),
        ("block", measured.block, 1),
        ("capacity", measured.capacity, 2),
        ("partitions", measured.partitions, 1),
        ("offered", measured.offered, 0),
        ("offered_before", measured.offered_before, 0),
        *(("window_tuples", value, 0) for value in measured.window_tuples),
    ):
        if value is not None and not least <= value < math.inf:
            raise MillraceError(f"join.{name}", value, f"a number >= {least}", "Measure the join anew.")
    if not 0 <= measured.shed <= 1:
        raise MillraceError("join.shed", measured.shed, "0..1", "Measure the join anew.")
    if not 0 < measured.period_s < math.inf:
        raise MillraceError("join.period_s", measured.period_s, "a number > 0", "Measure the join anew.")


def measure_load(measured: JoinSignals, options: EsjOptions) -> Load:
    """Return the load of a join of which nothing that is needed is missing."""
    each = [tuples for tuples in measured.window_tuples if tuples is not None]
    kept, m = sum(each), measured.workers
    if options.trigger == "window":
        fullest = max(each)
        return Load(float(fullest * m), kept, fullest / measured.capacity)
    offered = float(measured.offered or 0)
    before = offered if measured.offered_before is None else measured.offered_before
    soon = offered + options.ahead * (offered - before)
    return Load(max(offered, soon), kept, kept / (m * measured.capacity), soon > offered)

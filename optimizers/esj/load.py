"""The load of a join as its policy uses it, and checks for unusable telemetry.

The paper's utilisation is that of a worker's window. Shedding keeps it low, and it may never reach tau3: with
tau2 = 0.8, tau3 = 0.95 and B = 0.1 that takes an offered load of 4.2 times the capacity. So workers are added by the
tuples that the window would hold without shedding.

Reference: [ESJ-A]. Deviation: the trigger ``offered``, and with it, shedding by the mean over the workers. After
workers are added, the fullest one still holds earlier tuples and does not show how much room there is for new ones.
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
        tuples: Load by which workers are added and removed, tuples, >= 0.
        kept: Tuples that the workers keep, >= 0.
        shed_by: Utilisation by which tuples are shed, >= 0.
        is_growing: Whether ``tuples`` is a projection.
    """

    tuples: float
    kept: int
    shed_by: float
    is_growing: bool = False


def missing_figure(measured: JoinSignals, options: EsjOptions) -> str | None:
    """Return the figure that the policy needs and the telemetry has lost; None if it has all."""
    if not measured.window_tuples or None in measured.window_tuples:
        return "how many tuples each worker holds"
    if measured.offered is None and options.trigger != "window":
        return "how many tuples were offered"
    return None


def check_figures(measured: JoinSignals) -> None:
    """Refuse impossible measurements.

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
            raise MillraceError(f"join.{name}", value, f"a number >= {least}", "Measure the join again.")
    if not 0 <= measured.shed <= 1:
        raise MillraceError("join.shed", measured.shed, "0..1", "Measure the join again.")
    if not 0 < measured.period_s < math.inf:
        raise MillraceError("join.period_s", measured.period_s, "a number > 0", "Measure the join again.")


def measure_load(measured: JoinSignals, options: EsjOptions) -> Load:
    """Return the load of a join; all figures that it needs must be present."""
    each = [tuples for tuples in measured.window_tuples if tuples is not None]
    kept, m = sum(each), measured.workers
    if options.trigger == "window":
        fullest = max(each)
        return Load(float(fullest * m), kept, fullest / measured.capacity)
    offered = float(measured.offered or 0)
    before = offered if measured.offered_before is None else measured.offered_before
    soon = offered + options.ahead * (offered - before)
    return Load(max(offered, soon), kept, kept / (m * measured.capacity), soon > offered)

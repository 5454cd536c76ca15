"""Draw a change: the fitted curve with its band, observations, the rate to serve, the choice and its alternative.

The alternative is the choice of the linear rule (DS2) for the same rate: ceil(p * wanted / PA(p)), with PA measured at
the p that ran. A change of several operators shows the first one, whose model a Proposal carries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millrace.model.decision import Decision, Proposal
from millrace.model.deployment import Change
from millrace.model.objective import Bounds, Objective
from millrace.model.signals import AppSignals

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MODEL, RATE, CHOSEN, ALTERNATIVE, BEFORE = "tab:blue", "tab:red", "tab:green", "tab:purple", "grey"
MARGIN = 1.25
"""The axes end at this multiple of the largest relevant value; a band may be many times wider."""
ROUNDING = 1e-9


@dataclass(frozen=True)
class Subject:
    """The subject of a change.

    Attributes:
        change: The first change of a Proposal.
        rate: Rate to serve, rows per second; None if unknown.
        wanted: The same over the target utilisation; None if unknown.
        throughput: Throughput of the p that ran, rows per second; None if unknown.
        throughput_at: That p.
        bounds: Allowed p.
    """

    change: Change
    rate: float | None
    wanted: float | None
    throughput: float | None
    throughput_at: int | None
    bounds: Bounds

    @property
    def linear(self) -> int | None:
        """The p that the linear rule would choose; None if the rate or the throughput is unknown."""
        if not self.wanted or not self.throughput or not self.throughput_at:
            return None
        exact = self.throughput_at * self.wanted / self.throughput
        if not math.isfinite(exact):
            return None
        return self.bounds.level(math.ceil(exact * (1 - ROUNDING)))


def curve_figure(decision: Decision, proposal: Proposal) -> Figure | None:
    """Return the fitted curve of throughput over p, with the choice on it; None without a model."""
    curve = proposal.curve
    if not curve.get("parallelism") or not curve.get("mean"):
        return None
    from matplotlib.figure import Figure  # no pyplot: no display, no global state
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.subplots()
    p = curve["parallelism"]
    axes.plot(p, curve["mean"], color=MODEL, label="model")
    if curve.get("low") and curve.get("high"):
        axes.fill_between(p, curve["low"], curve["high"], color=MODEL, alpha=0.2, linewidth=0, label="band")
    levels, throughputs = (proposal.training.get(c, ()) for c in ("parallelism", "throughput"))
    noise = proposal.training.get("noise") or None
    axes.errorbar(levels, throughputs, yerr=noise, fmt="o", color="black", markersize=4, capsize=2, label="observed")
    subject = subject_of(decision, proposal)
    if subject is not None:
        _draw(axes, subject)
    _limit(axes, proposal, subject)
    axes.set(xlabel="p", ylabel="throughput (rows/s)")
    axes.set_title(_title(decision, proposal), fontsize="medium")
    axes.yaxis.set_major_formatter(EngFormatter())
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return figure


def subject_of(decision: Decision, proposal: Proposal) -> Subject | None:
    """Return the subject of a Proposal's first change; None without a change or signals of its app."""
    signals = decision.signals
    change = next(iter(proposal.changes), None)
    app = next((a for a in signals.apps if change and a.app == change.app), None) if signals else None
    if signals is None or change is None or app is None:
        return None
    if change.operator is None:
        rate = rate_to_serve(app, signals.objective)
        throughput = app.capacity.rows_per_s if app.capacity else None
        at = app.capacity.parallelism if app.capacity else None
    else:
        operator = next((o for o in app.operators if o.operator == change.operator), None)
        rate = _predicted_rate(proposal, change.operator) or (operator.rows_in_per_s if operator else None)
        throughput = operator.throughput if operator else None
        at = operator.parallelism if operator else None
    wanted = None if rate is None else rate / signals.objective.target_utilisation
    return Subject(change, rate, wanted, throughput, at, signals.bounds_of(change.app))


def rate_to_serve(app: AppSignals, objective: Objective) -> float | None:
    """Return arrival + backlog / catch_up_s, rows per second; None if the arrival is unknown."""
    if app.arrival_rows_per_s is None:
        return None
    return app.arrival_rows_per_s + (app.backlog_rows or 0) / objective.catch_up_s


def _predicted_rate(proposal: Proposal, operator: str) -> float | None:
    """Return the rate that an operator must take in, rows per second, from its predicted utilisation."""
    throughput, used = (
        proposal.predicted.get(f"{name}/{operator}") for name in ("throughput_rows_per_s", "utilisation_ratio")
    )
    return None if throughput is None or used is None else throughput * used


def _draw(axes: Axes, subject: Subject) -> None:
    change = subject.change
    axes.axvline(change.before, color=BEFORE, linestyle=":", label=f"before: p = {change.before}")
    axes.axvline(change.value, color=CHOSEN, linewidth=2, label=f"chosen: p = {change.value}")
    if subject.linear is not None and subject.throughput and subject.throughput_at and subject.wanted:
        label = f"linear rule (DS2): p = {subject.linear}"
        axes.axvline(subject.linear, color=ALTERNATIVE, linestyle="--", label=label)
        # the line that the rule assumes, from the measured point on
        reach = subject.linear / subject.throughput_at * subject.throughput
        ends = (subject.throughput_at, subject.linear), (subject.throughput, reach)
        axes.plot(*ends, color=ALTERNATIVE, linewidth=1, alpha=0.6)
    if subject.rate is None or subject.wanted is None:
        return
    axes.axhline(subject.rate, color=RATE, label=f"rate to serve: {subject.rate:,.0f} rows/s")
    if subject.wanted > subject.rate:
        share = subject.rate / subject.wanted
        axes.axhline(subject.wanted, color=RATE, linestyle="--", label=f"at {share:.0%} utilisation")


def _limit(axes: Axes, proposal: Proposal, subject: Subject | None) -> None:
    """End the axes after the last relevant value: a model may reach far beyond the choice."""
    levels = [*proposal.training.get("parallelism", ())]
    if subject is not None:
        levels += [subject.change.before, subject.change.value, subject.linear or 0]
    last = max(proposal.curve["parallelism"])
    highest = max(levels, default=last)
    right = max(highest + 1, min(MARGIN * highest, last))
    shown = [m for p, m in zip(proposal.curve["parallelism"], proposal.curve["mean"], strict=True) if p <= right]
    rates = [subject.wanted or 0.0] if subject is not None else []
    top = max([*shown, *proposal.training.get("throughput", ()), *rates], default=1.0)
    axes.set_xlim(0, max(right, 2.0))
    axes.set_ylim(0, MARGIN * top if math.isfinite(top) and top > 0 else None)


def _title(decision: Decision, proposal: Proposal) -> str:
    changes = proposal.changes
    name = f"{decision.pipeline}/{changes[0].operator}" if changes and changes[0].operator else decision.pipeline
    others = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
    return f"{name}{others}: {proposal.reason_code}"

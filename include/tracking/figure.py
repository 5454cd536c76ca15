"""The picture of a decision: fitted curve with its band, measured points, rates, before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from include.contracts.decision import Decision, Proposal
from include.contracts.signals import AppSignals, Objective

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def curve_figure(decision: Decision, proposal: Proposal) -> Figure | None:
    """Return the fitted curve of processing ability over p with what was chosen on it; None without a model."""
    curve = proposal.curve
    if not curve.get("parallelism") or not curve.get("mean"):
        return None
    from matplotlib.figure import Figure  # no pyplot: no display, no global state

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.subplots()
    p = curve["parallelism"]
    axes.plot(p, curve["mean"], color="tab:blue", label="model")
    if curve.get("low") and curve.get("high"):
        axes.fill_between(p, curve["low"], curve["high"], color="tab:blue", alpha=0.2, label="band")
    levels, abilities = (proposal.training.get(c, ()) for c in ("parallelism", "processing_ability"))
    axes.scatter(levels, abilities, color="black", s=18, label="measured")
    for change in (c for c in proposal.changes if c.field == "slots"):
        axes.axvline(change.before, color="grey", linestyle=":", label=f"before: {change.before}")
        axes.axvline(change.value, color="tab:green", label=f"chosen: {change.value}")
        rate = _rate_to_serve(decision, change.app)
        if rate is not None and decision.signals is not None:
            target = decision.signals.objective.target_utilisation
            axes.axhline(rate, color="tab:red", label=f"rate to serve: {rate:.0f} rows/s")
            axes.axhline(rate / target, color="tab:red", linestyle="--", label=f"at {target:.0%} utilisation")
    axes.set(xlabel="p", ylabel="processing ability (rows/s)", ylim=(0, None))
    axes.set_title(f"{decision.pipeline}: {proposal.reason_code}")
    axes.legend(fontsize="small")
    return figure


def rate_to_serve(app: AppSignals, objective: Objective) -> float | None:
    """Return arrival + backlog / catch_up_s in rows a second; None if the arrival is unknown."""
    if app.arrival_rows_per_s is None:
        return None
    return app.arrival_rows_per_s + (app.backlog_rows or 0) / objective.catch_up_s


def _rate_to_serve(decision: Decision, name: str) -> float | None:
    signals = decision.signals
    app = next((a for a in signals.apps if a.app == name), None) if signals else None
    return rate_to_serve(app, signals.objective) if app and signals else None

"""The picture of a join's workers: what each keeps of the window, what it can, and what would have been offered it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from include.model.join import JoinSignals

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def join_figure(found: JoinSignals, workers: int) -> Figure:
    """Return a bar for each worker's window, with the capacity and the offered load a worker, now and afterwards.

    Args:
        found: What was measured.
        workers: Workers that the decision leads to, >= 1.
    """
    from matplotlib.figure import Figure  # no pyplot: no display, no global state
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.subplots()
    kept = [float("nan") if tuples is None else tuples for tuples in found.window_tuples]
    axes.bar(range(1, len(kept) + 1), kept, color="tab:blue", alpha=0.7, label="kept")
    axes.axhline(found.capacity, color="tab:red", label=f"capacity {found.capacity:,}")
    if found.offered is not None:
        each, after = found.offered / found.workers, found.offered / workers
        axes.axhline(each, color="black", linestyle=":", label=f"offered {found.offered:,}: {each:,.0f} a worker")
        if workers != found.workers:
            axes.axhline(after, color="tab:green", linestyle="--", label=f"on {workers} workers: {after:,.0f}")
    axes.set(xlabel="worker", ylabel="tuples of the window")
    axes.set_xlim(0.5, max(len(kept), workers) + 0.5)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(_title(found, workers), fontsize="medium", loc="left")
    axes.grid(alpha=0.3, axis="y")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
    return figure


def _title(found: JoinSignals, workers: int) -> str:
    several = f"{found.workers} worker{'s' * (found.workers != 1)}"
    step = several if workers == found.workers else f"{several} to {workers}"
    return f"{step}, blocks of {found.block:,}, {100 * found.shed:.3g} % shed, window of {found.window_s:,.0f} s"

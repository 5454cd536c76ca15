"""The picture of a replay: load and ability, slots, rows waiting; what was done beside what would have been done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from include.model.backtest import Backtest, ReplayedLook
from include.model.errors import MillraceError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECORDED, REPLAYED, ARRIVAL, QUIET = "tab:gray", "tab:blue", "tab:red", "0.93"
FORMATS = ("png", "svg", "pdf")


def replay_figure(backtest: Backtest) -> Figure:
    """Return the course of a replay in three pictures over one time axis."""
    from matplotlib import dates
    from matplotlib.figure import Figure  # no pyplot: no display, no global state

    looks = backtest.looks
    figure = Figure(figsize=(10, 7.5), layout="constrained")
    rates, slots, waiting = figure.subplots(3, 1, sharex=True, height_ratios=(3, 2, 2))
    times = [look.time for look in looks]
    load = [_number(k.arrival_rows_per_s) for k in looks]
    rates.plot(times, load, color=ARRIVAL, label="rows that arrive", zorder=3)
    rates.set_ylabel("rows/s")
    slots.set(ylabel="slots", ylim=(0, max(backtest.recorded.peak_slots, backtest.replayed.peak_slots) + 0.5))
    waiting.set_ylabel("rows waiting")
    for name, colour, style in (("recorded", RECORDED, "--"), ("replayed", REPLAYED, "-")):
        course = [getattr(look, name) for look in looks]
        line: dict[str, Any] = {"color": colour, "linestyle": style, "label": name}
        able = [_number(c.ability_rows_per_s) for c in course]
        rates.plot(times, able, drawstyle="steps-pre", **(line | {"label": f"what {name} slots sustain"}))
        slots.plot(times, [c.decided for c in course], drawstyle="steps-post", **line)
        waiting.plot(times, [_number(c.backlog_rows) for c in course], **line)
    for axes in (rates, waiting):
        axes.set_ylim(0, None)
    for axes in (rates, slots, waiting):
        _shade(axes, looks)
        axes.grid(alpha=0.3)
    rates.legend(fontsize="small", ncols=2)
    slots.legend(fontsize="small")
    locator = dates.AutoDateLocator()  # type: ignore[no-untyped-call]
    waiting.xaxis.set_major_locator(locator)
    waiting.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    waiting.set_xlabel("time (UTC)")
    shaded = "; shaded: modelled, for other slots ran than recorded" if backtest.modelled else ""
    rates.set_title(f"{backtest.pipeline}: {backtest.tuner} beside what was done{shaded}", fontsize="medium")
    return figure


def check_file(path: Path) -> None:
    """Refuse a file that a figure cannot be written to, before any work is done.

    Raises:
        MillraceError: If its folder does not exist, or its ending is no known format.
    """
    if not path.parent.is_dir():
        raise MillraceError("--figure", str(path), "a file in a folder that exists", "Make the folder first.")
    if path.suffix.removeprefix(".").lower() not in FORMATS:
        allowed = ", ".join(f"a name that ends in .{ending}" for ending in FORMATS)
        raise MillraceError("--figure", path.name, allowed, "Give it one of these endings.")


def write_figure(backtest: Backtest, path: Path) -> None:
    """Write the picture of a replay to a file that :func:`check_file` accepts."""
    try:
        replay_figure(backtest).savefig(path, dpi=150)
    except OSError as error:
        raise MillraceError("--figure", str(path), "a file that can be written", str(error)) from error


def _shade(axes: Any, looks: Sequence[ReplayedLook]) -> None:
    """Mark the spans in which looks are modelled, each from the look before it."""
    begin = None
    for before, look in zip((looks[0], *looks), looks, strict=False):
        if look.modelled and begin is None:
            begin = before.time
        if begin is not None and (not look.modelled or look is looks[-1]):
            axes.axvspan(begin, before.time if not look.modelled else look.time, color=QUIET, zorder=0)
            begin = None


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)

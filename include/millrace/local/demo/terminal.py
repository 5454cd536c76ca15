"""The demo's output: a live view in a terminal, plain lines elsewhere, and a summary at the end."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from millrace.local.demo.checks import Check, passed
from millrace.local.demo.figures import Figures, cards, restarts_saved
from millrace.local.demo.labels import clock, hour_text, sizes_of, slots_text
from millrace.local.demo.live_stats import LiveStats
from millrace.local.demo.timeline import Evaluation
from millrace.model.decision import Decision
from millrace.model.spec import PipelineSpec

BLOCKS = "▁▂▃▄▅▆▇█"
HISTORY = 48
LINE_EVERY_S = 5.0
SHOWN_DECISIONS = 6


class View:
    """Show steps, live figures and Decisions; as a context manager, restore the terminal at the end.

    Args:
        apps: The pipeline's apps.
        console: Where to show it.
    """

    def __init__(self, apps: Sequence[str], console: Console) -> None:
        self._apps, self._console = apps, console
        self._begun = time.monotonic()
        self._history: deque[LiveStats] = deque(maxlen=HISTORY)
        self._decisions: deque[tuple[float, Decision]] = deque(maxlen=SHOWN_DECISIONS)
        self._hour: float | None = None
        self._addresses = ""
        self._line_due = 0.0
        self._live: Live | None = None  # created last: it renders at once
        if console.is_terminal:
            self._live = Live(console=console, refresh_per_second=4, get_renderable=self.render)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.still()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the demo started."""
        return time.monotonic() - self._begun

    def step(self, text: str) -> None:
        """Print the current step as one line."""
        self._console.print(f"[dim]{clock(self.elapsed_s):>5}[/dim]  {text}", highlight=False, soft_wrap=True)

    def addresses(self, text: str) -> None:
        """Set the line with the addresses of the pages."""
        self._addresses = text

    def stats(self, stats: LiveStats, hour: float | None) -> None:
        """Show figures.

        Args:
            stats: The pipeline.
            hour: Hour of the replayed day; None when the replay has ended.
        """
        self._hour = hour
        self._history.append(stats)
        if self._live is not None:
            self._live.start()
        elif self.elapsed_s >= self._line_due:
            self._line_due = self.elapsed_s + LINE_EVERY_S
            self._console.print(f"{clock(self.elapsed_s):>5}  {line(stats, hour)}", highlight=False, soft_wrap=True)

    def decision(self, decision: Decision) -> None:
        """Show a Decision as it happens."""
        self._decisions.append((self.elapsed_s, decision))
        if self._live is None:
            self._console.print(decision_text(self.elapsed_s, decision, self._apps), soft_wrap=True)

    def still(self) -> None:
        """Freeze the live view and continue with plain lines."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def render(self) -> RenderableType:
        """Return the live picture."""
        if not self._history:
            return Text("")
        rows = Table.grid(padding=(0, 2))
        rows.add_column(justify="left", style="bold")
        rows.add_column(justify="right", min_width=14)
        rows.add_column(no_wrap=True)
        past, now = list(self._history), self._history[-1]
        sustainable = "measuring" if now.sustainable_rows_per_s is None else f"{now.sustainable_rows_per_s:,.0f} rows/s"
        top = max([p.event_rows_per_s for p in past] + [p.sustainable_rows_per_s or 0 for p in past])
        rows.add_row(
            "event rate", f"{now.event_rows_per_s:,.0f} rows/s", _spark([p.event_rows_per_s for p in past], top)
        )
        rows.add_row("sustainable", sustainable, _spark([p.sustainable_rows_per_s or 0 for p in past], top))
        rows.add_row("parallelism", parallelism(now), _spark([p.slots or 0 for p in past], 8 * len(self._apps)))
        rows.add_row("backlog", f"{now.backlog:,} rows", _spark([p.backlog for p in past]))
        decisions: RenderableType = Text("The first evaluation runs when the first telemetry arrives.", style="dim")
        if self._decisions:
            decisions = table = Table.grid(padding=(0, 2))
            for at_s, each in self._decisions:
                table.add_row(*decision_cells(at_s, each, self._apps))
        title = f"[bold]Millrace demo[/bold]  {clock(self.elapsed_s)}{of_day(self._hour)}"
        below = Text(self._addresses, style="dim")
        return Panel(Group(rows, Text(), decisions, Text(), below), title=title, title_align="left", padding=(1, 2))


def line(stats: LiveStats, hour: float | None) -> str:
    """Return figures as one line of text."""
    known = stats.sustainable_rows_per_s
    can = parallelism(stats) + ("" if known is None else f", sustainable {known:,.0f} rows/s")
    day = "feed done" if hour is None else f"flights of {hour_text(hour)}"
    return f"{day}: {stats.event_rows_per_s:,.0f} rows/s, backlog {stats.backlog:,} rows, {can}"


def parallelism(stats: LiveStats) -> str:
    """Return the slots, and the slots that are starting."""
    now = "starting" if stats.slots is None else f"{stats.slots} slot{'s' if stats.slots != 1 else ''}"
    if len(stats.by_app) > 1:
        now += f" ({', '.join(f'{app} {slots}' for app, slots in stats.by_app.items())})"
    return f"{now} (→ {stats.starting})" if stats.starting is not None else now


def decision_text(at_s: float, decision: Decision, apps: Sequence[str]) -> Text:
    """Return a Decision as a line."""
    return Text("  ").join(decision_cells(at_s, decision, apps))


def decision_cells(at_s: float, decision: Decision, apps: Sequence[str]) -> tuple[Text, Text, Text]:
    """Return a Decision's time, slots of all apps and sentence; highlight a change."""
    evaluation = Evaluation(at_s, decision, sizes_of(decision, apps))
    change = evaluation.changes
    slots = Text(f"{slots_text(evaluation.before, evaluation.after):>6}", style="bold magenta" if change else "dim")
    return Text(f"{clock(at_s):>5}", style="dim"), slots, Text(decision.sentence, style="" if change else "dim")


def of_day(hour: float | None) -> str:
    """Return the hour for a title."""
    return "" if hour is None else f"  flights of {hour_text(hour)}"


def _spark(values: list[float] | list[int], top: float | None = None) -> str:
    high = max(top or 0, *values, 1e-9)
    return "".join(BLOCKS[min(len(BLOCKS) - 1, int(v / high * len(BLOCKS)))] if v > 0 else " " for v in values)


def console() -> Console:
    """Return the console of this process."""
    return Console(file=sys.stdout, highlight=False)


def print_summary(
    console: Console, spec: PipelineSpec, figures: Figures, checks: tuple[Check, ...], report: Path
) -> None:
    """Print figures, checks and the path of the report."""
    console.print()
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="bold")
    table.add_column(overflow="fold")
    actions = ", ".join(f"{n} {action}" for action, n in sorted(figures.actions.items())) or "none"
    table.add_row(str(sum(figures.actions.values())), f"decisions: {actions}")
    for value, what in cards(spec, figures):
        table.add_row(value, what)
    console.print(table, highlight=False)
    console.print()
    if saved := restarts_saved(figures):
        console.print(saved, highlight=False)
        console.print()
    table = Table.grid(padding=(0, 2))
    for check in checks:
        mark = "[green]passed[/green]" if check.held else "[red]failed[/red]"
        table.add_row(mark, check.claim, f"[dim]{escape(check.detail)}[/dim]")
    console.print(table, highlight=False)
    colour, verdict = ("green", "The demo succeeded.") if passed(checks) else ("red", "The demo failed.")
    console.print(f"\n[bold {colour}]{verdict}[/bold {colour}] Report: {report}", highlight=False, soft_wrap=True)

"""The run in the terminal, at its end."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from include.local.demo.checks import Check, passed
from include.local.demo.figures import Figures
from include.local.demo.report import cards
from include.model.spec import PipelineSpec


def print_summary(
    console: Console, spec: PipelineSpec, figures: Figures, checks: tuple[Check, ...], report: Path
) -> None:
    """Print figures, checks and where the report is.

    Args:
        console: Where to.
        spec: The pipeline.
        figures: Its figures.
        checks: Its checks.
        report: The report's file.
    """
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
    table = Table.grid(padding=(0, 2))
    for check in checks:
        mark = "[green]held[/green]" if check.held else "[red]failed[/red]"
        table.add_row(mark, check.claim, f"[dim]{escape(check.detail)}[/dim]")
    console.print(table, highlight=False)
    colour, verdict = ("green", "The demo succeeded.") if passed(checks) else ("red", "The demo did not succeed.")
    console.print(f"\n[bold {colour}]{verdict}[/bold {colour}] The report: {report}", highlight=False, soft_wrap=True)

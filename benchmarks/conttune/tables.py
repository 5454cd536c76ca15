"""The results for a reader: one table per scenario with a row per method, then the targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table

from benchmarks.conttune.figures import FIGURES, WITH_INTERVAL, Figure
from benchmarks.record import Record

By = Mapping[tuple[str, str], Record]
"""Records of a scenario by method and figure."""


def scenario_tables(records: Sequence[Record]) -> Iterator[Table]:
    """Return a table for each scenario with driven methods, in the order of the records."""
    for scenario in dict.fromkeys(r.scenario for r in records):
        of_it = [r for r in records if r.scenario == scenario and r.figure in FIGURES]
        if of_it:
            yield _scenario(scenario, of_it)


def target_table(records: Sequence[Record]) -> Table:
    """Return the figures with a target and whether it holds; missed targets come last, nearest to the prompt."""
    aimed = sorted((r for r in records if r.target is not None), key=lambda r: not r.holds)
    missed = sum(not r.holds for r in aimed)
    shown = Table(title=f"\nTargets: {len(aimed) - missed} of {len(aimed)} hold", title_justify="left", box=None)
    for heading in ("scenario", "method", "figure"):
        shown.add_column(heading, no_wrap=True)
    for heading in ("value", "target", "runs"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("holds")
    for r in aimed:
        holds = "[green]yes[/]" if r.holds else "[red]no[/]"
        shown.add_row(r.scenario, r.method, r.figure, f"{r.value:.4g}", r.target, str(r.n), holds)
    return shown


def _scenario(scenario: str, records: Sequence[Record]) -> Table:
    by: By = {(r.method, r.figure): r for r in records}
    figures = [(name, f) for name, f in FIGURES.items() if f.short and any((r.figure == name) for r in records)]
    runs = max(r.n for r in records)
    title = f"\n{scenario} ({runs} run{'s' if runs > 1 else ''})"
    shown = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    shown.add_column("method", no_wrap=True)
    for _, figure in figures:
        shown.add_column(figure.short, justify="right", no_wrap=True)
    for method in dict.fromkeys(r.method for r in records):
        shown.add_row(method, *(_cell(by.get((method, name)), name, figure) for name, figure in figures))
    return shown


def _cell(record: Record | None, name: str, figure: Figure) -> str:
    if record is None:
        return ""
    text = f"{record.value * figure.scale:.{figure.digits}f}"
    if name not in WITH_INTERVAL or record.high is None:
        return text
    return f"{text} ±{(record.high - record.value) * figure.scale:.{figure.digits}f}".replace("±0.", "±.")

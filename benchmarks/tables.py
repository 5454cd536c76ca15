"""All figures as HTML and CSV: a page and a CSV file per benchmark, and an index with the missed targets."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from html import escape
from pathlib import Path

from benchmarks.misses import REASONS, Missed
from benchmarks.record import Record, grouped, shown

STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 1rem 2rem }
div { overflow-x: auto }
table { border-collapse: collapse }
th, td { border: 1px solid #ccc; padding: 2px 8px; text-align: left; vertical-align: top; white-space: nowrap }
th:first-child { position: sticky; left: 0; background: #eee }
.missed { color: #b00; font-weight: bold }
small { display: block; color: #666 }
"""


def write_tables(records: Sequence[Record], folder: Path, reasons: Mapping[Missed, str] = REASONS) -> None:
    """Write ``BENCH.html`` and ``BENCH.csv`` for each benchmark, and ``index.html``.

    Args:
        records: All records.
        folder: Target folder; created if missing.
        reasons: Why figures miss their targets.
    """
    folder.mkdir(parents=True, exist_ok=True)
    benches = grouped(records, lambda r: r.bench)
    for bench, of_bench in benches.items():
        (folder / f"{bench}.html").write_text(_page(bench, _scenarios(of_bench)), encoding="utf-8")
        with (folder / f"{bench}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(Record)])
            writer.writeheader()
            writer.writerows(asdict(r) for r in of_bench)
    links = [f'<li><a href="{b}.html">{b}</a>, <a href="{b}.csv">{b}.csv</a></li>' for b in sorted(benches)]
    index = ["<ul>", *links, "</ul>", "<h2>Missed targets</h2>", *_missed(records, reasons)]
    (folder / "index.html").write_text(_page("All figures", index), encoding="utf-8")


def _page(title: str, lines: Iterable[str]) -> str:
    head = f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    return "\n".join([head, f"<h1>{title}</h1>", *lines, "</html>", ""])


def _scenarios(records: Sequence[Record]) -> list[str]:
    """Return a table for each scenario: a row per figure and a column per method."""
    lines = ["<p>Red figures miss their target. Small print: the target, and figures of other seeds.</p>"]
    for scenario, of_scenario in grouped(records, lambda r: r.scenario).items():
        when = ", ".join(sorted({r.measured for r in of_scenario if r.measured}))
        lines += [f'<h2 id="{escape(scenario)}">{escape(scenario)}</h2>', f"<p>Measured: {when or 'unknown'}</p>"]
        methods = grouped(of_scenario, lambda r: r.method)
        rows = []
        for figure, of_figure in grouped(of_scenario, lambda r: r.figure).items():
            cells = grouped(of_figure, lambda r: r.method)
            rows.append([escape(figure), *(_cell(cells.get(method, [])) for method in methods)])
        lines += _table(["figure", *map(escape, methods)], rows)
    return lines


def _cell(records: Sequence[Record]) -> str:
    """Return a figure with its target, and what other seeds measured."""
    usual, *others = sorted(records, key=lambda r: r.seed) or (None,)
    if usual is None:
        return ""
    target = f"<small>target {escape(usual.target)}</small>" if usual.target else ""
    return _marked(usual) + target + "".join(f"<small>seed {r.seed}: {_marked(r)}</small>" for r in others)


def _marked(r: Record) -> str:
    return f'<span class="missed">{escape(shown(r))}</span>' if r.holds is False else escape(shown(r))


def _missed(records: Sequence[Record], reasons: Mapping[Missed, str]) -> list[str]:
    """Return the table of figures that miss their target with some seed."""
    rows = []
    for of_figure in grouped(records, lambda r: (r.bench, r.scenario, r.method, r.figure)).values():
        if any(r.holds is False for r in of_figure):
            r = of_figure[0]
            link = f'<a href="{r.bench}.html#{escape(r.scenario)}">{r.bench}: {escape(r.scenario)}</a>'
            why = reasons.get((r.bench, r.scenario, r.figure), "not known")
            rows.append([link, escape(r.method), escape(r.figure), _cell(of_figure), escape(why)])
    return _table(["scenario", "method", "figure", "value", "why"], rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    def row(tag: str, first: str, *rest: str) -> str:
        return f"<tr><th>{first}</th>{''.join(f'<{tag}>{cell}</{tag}>' for cell in rest)}</tr>"

    return ["<div><table>", row("th", *columns), *(row("td", *cells) for cells in rows), "</table></div>"]

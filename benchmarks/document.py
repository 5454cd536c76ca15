"""Write docs/benchmarks.md from the records next to it: ``python -m benchmarks.document``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.misses import REASONS, Missed
from benchmarks.record import Record, read

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
RECORDS = DOCUMENT.with_suffix("")
HEAD = """# Benchmarks

Written by `python -m benchmarks.document` from the records in `docs/benchmarks/`, a file a scenario. With
`--json docs/benchmarks`, `./millrace bench NAME` puts there what it measures, and `./millrace bench all` measures what
is not there yet. A target is judged at the unfavourable end: the worst seed or round, or the end of the 95 %
interval, which stands in parentheses. A figure links to its scenario, where it stands beside its rivals'. The usual
seed, 0, is the one that methods were developed on; what other seeds draw stands beside it, by seed, and in bold where
it changes the verdict. A target holds where it does with every seed.
"""
COLUMNS = ("benchmark", "scenario", "method", "figure", "value", "n", "target", "other seeds")
"""Columns of tables of figures that have a target."""
MOST_COLUMNS = 10
"""Most methods as columns; with more, each method is a row."""


def document(records: Sequence[Record], reasons: Mapping[Missed, str] = REASONS) -> str:
    """Return the page: missed targets and reasons, met targets, effects of other seeds, and a table per scenario.

    Args:
        records: Records of any number of benchmarks.
        reasons: Why figures miss their targets, even if only with one seed.
    """
    others = _by(sorted((r for r in records if r.seed), key=lambda r: r.seed), anchor)
    usual = [r for r in records if not r.seed]
    verdicts = [(r, all(found.holds for found in (r, *others.get(anchor(r), ())))) for r in usual if r.target]
    lines = [HEAD, "## Missed targets", "", *_explained([r for r, holds in verdicts if not holds], others, reasons)]
    lines += ["", "## Targets that hold", "", *_held([r for r, holds in verdicts if holds], others)]
    lines += ["", "## Verdicts that other seeds change", "", *_seeds(usual, others, reasons)]
    for bench, of_bench in sorted(_by(usual, lambda r: r.bench).items()):
        lines += ["", f"## {bench}", "", f"Measured {_measured(of_bench)}."]
        for scenario, of_scenario in _by(of_bench, lambda r: r.scenario).items():
            lines += ["", f'<a id="{_scenario_anchor(of_scenario[0])}"></a>', f"### {bench}: {scenario}", ""]
            lines += _scenario(of_scenario)
    return "\n".join(lines) + "\n"


def anchor(record: Record) -> str:
    """Return the link name of a figure that has a target."""
    return f"{_scenario_anchor(record)}-{record.method}-{record.figure}".replace(" ", "_")


def _scenario_anchor(record: Record) -> str:
    return f"{record.bench}-{record.scenario}".replace(" ", "_")


def _by(records: Sequence[Record], key: Callable[[Record], str]) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def _measured(records: Sequence[Record]) -> str:
    """Return when each scenario was measured, and at which commit."""
    scenarios: dict[str, dict[str, None]] = {}
    for r in records:
        scenarios.setdefault(r.measured or "at a time that nobody wrote down", {})[r.scenario] = None
    return "; ".join(f"{when}: {', '.join(those)}" for when, those in sorted(scenarios.items()))


def _seeds(
    usual: Sequence[Record], others: Mapping[str, Sequence[Record]], reasons: Mapping[Missed, str]
) -> Iterator[str]:
    """Yield how many verdicts of each seed match the usual seed, and the figures whose verdict differs."""
    beside = [(r, other) for r in usual if r.target for other in others.get(anchor(r), ())]

    def row(seed: int) -> tuple[str, ...]:
        verdicts = [(r.holds, other.holds) for r, other in beside if other.seed == seed]
        counts = (verdicts.count((True, False)), verdicts.count((False, True)))
        return tuple(map(str, (seed, len(verdicts), len(verdicts) - sum(counts), *counts)))

    columns = ("seed", "verdicts", "as the usual seed's", "missed instead of held", "held instead of missed")
    yield from _table(columns, map(row, sorted({other.seed for _, other in beside})))
    changed = dict.fromkeys(r for r, other in beside if other.holds is not r.holds)
    yield from ("", *_explained(list(changed), others, reasons, anchored=False))


def _explained(
    records: Sequence[Record],
    others: Mapping[str, Sequence[Record]],
    reasons: Mapping[Missed, str],
    anchored: bool = True,
) -> Iterator[str]:
    yield from _table(
        (*COLUMNS, "why"),
        ((*_judged(r, others, anchored), reasons.get((r.bench, r.scenario, r.figure), "not known")) for r in records),
    )


def _held(records: Sequence[Record], others: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    yield from _table(COLUMNS, (_judged(r, others) for r in records))


def _judged(r: Record, others: Mapping[str, Sequence[Record]], anchored: bool = True) -> tuple[str, ...]:
    target = f'<a id="{anchor(r)}"></a>' if anchored else ""
    figure = f"{target}[{r.figure}](#{_scenario_anchor(r)})"
    drawn = ", ".join(_of_seed(other, r) for other in others.get(anchor(r), ()))
    return r.bench, r.scenario, r.method, figure, _value(r), str(r.n), r.target or "", drawn


def _of_seed(other: Record, usual: Record) -> str:
    text = f"{other.seed}: {_value(other, bare=True).strip('*')}"
    return text if other.holds is usual.holds else f"**{text}**"


def _scenario(records: Sequence[Record]) -> Iterator[str]:
    """Yield a scenario's table: one row per figure and one column per method, or the reverse for many methods."""
    methods, figures = dict.fromkeys(r.method for r in records), dict.fromkeys(_named(r) for r in records)
    found = {(r.method, _named(r)): _value(r, bare=True) for r in records}
    if len(methods) <= MOST_COLUMNS:
        rows = ([figure, *(found.get((method, figure), "") for method in methods)] for figure in figures)
        yield from _table(("figure", *methods), rows)
    else:
        rows = ([method, *(found.get((method, figure), "") for figure in figures)] for method in methods)
        yield from _table(("method", *figures), rows)


def _named(r: Record) -> str:
    return f"{r.figure}, {r.unit}" if r.unit else r.figure


def _value(r: Record, bare: bool = False) -> str:
    interval = f" ({r.low:.4g} to {r.high:.4g})" if r.low is not None and r.high is not None else ""
    text = f"{r.value:.4g}{'' if bare or not r.unit else ' ' + r.unit}{interval}"
    return f"**{text}**" if bare and r.holds is False else text


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        yield "None."
        return
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    yield from lines


if __name__ == "__main__":
    DOCUMENT.write_text(document(read(RECORDS)), encoding="utf-8")

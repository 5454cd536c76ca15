"""Write docs/benchmarks.md from the records next to it: ``python -m benchmarks.document``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from benchmarks.claims import LIVE, SIMULATED, Claim
from benchmarks.misses import LOSSES, REASONS, Loss, Missed
from benchmarks.record import Record, grouped, read, shown
from millrace.model.errors import MillraceError

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
RECORDS = DOCUMENT.with_suffix("")
MOST_LOSSES = 10
Key = tuple[str, str, str, str]
"""A benchmark, its scenario, the method, the figure."""

HEAD = """# Benchmarks

`python -m benchmarks.document` writes this page from the records in `docs/benchmarks/`. Each figure links to its
records, which name the day and the commit; the 95 % interval follows it in parentheses. A target is judged at the
unfavourable end: the end of the interval, or the worst round. It must be met with every seed; methods were developed
on only one.
"""
COLUMNS = """| figure | Millrace | rivals | verdict | measured by |
|---|---|---|---|---|"""
TAIL = """## All figures

`./millrace docs` writes all scenarios, methods, figures and seeds to `var/docs/benchmarks/`: a page and a CSV file for
each benchmark, and `index.html` with the missed targets and their reasons. To measure again, run
`./millrace bench NAME --json docs/benchmarks`; `./millrace bench all --json docs/benchmarks` measures what is missing.
"""


def document(
    records: Sequence[Record],
    live: Sequence[Claim] = LIVE,
    simulated: Sequence[Claim] = SIMULATED,
    losses: Sequence[Loss] = LOSSES,
    reasons: Mapping[Missed, str] = REASONS,
) -> str:
    """Return the page: claims that were measured live, simulated claims, and the most important missed targets.

    Args:
        records: All records.
        live: Claims about real Spark; a scenario that was not measured yet is only listed.
        simulated: The other claims.
        losses: Missed targets, the most important first; those that are met by now are left out.
        reasons: Why figures miss their targets.

    Raises:
        MillraceError: A claim or loss names a record that does not exist.
    """
    found = _by_key(records)
    measured = {(r.bench, r.scenario) for r in records}
    waiting = [claim for claim in live if (claim.area, claim.scenario) not in measured]
    lines = [HEAD, "## Live: real Spark, processes and tables", "", COLUMNS]
    lines += [_row(claim, found) for claim in live if claim not in waiting]
    if waiting:
        lines += ["", f"Not recorded yet: {'; '.join(f'`{claim.area}`: {claim.text}' for claim in waiting)}."]
    lines += ["", "## Simulated", "", COLUMNS, *(_row(claim, found) for claim in simulated)]
    lines += ["", "## Where Millrace loses", "", *_losses(found, losses, reasons), "", TAIL]
    return "\n".join(lines)


def _by_key(records: Sequence[Record]) -> dict[Key, list[Record]]:
    """Return the records of each figure, one per seed, the usual seed first."""
    return grouped(sorted(records, key=lambda r: r.seed), lambda r: (r.bench, r.scenario, r.method, r.figure))


def _of(found: Mapping[Key, list[Record]], key: Key) -> list[Record]:
    if key not in found:
        area, scenario, method, figure = key
        remedy = f"Run ./millrace bench {area} --json docs/benchmarks, or correct the claim."
        raise MillraceError(
            "docs/benchmarks", f"no {figure} of {method} in {area}/{scenario}", "a record of it", remedy
        )
    return found[key]


def _row(claim: Claim, found: Mapping[Key, list[Record]]) -> str:
    def usual(method: str, figure: str) -> Record:
        return _of(found, (claim.area, claim.scenario, method, figure))[0]

    ours = usual(claim.method, claim.figure)
    rivals = ", ".join(f"{name} {shown(usual(*key))}" for name, key in claim.rivals.items())
    text = claim.text.format(n=ours.n)
    return f"| {text} | {_linked(ours)} | {rivals} | {_verdict(claim, found)} | `{claim.command}` |"


def _linked(r: Record) -> str:
    return f"[{shown(r)}](benchmarks/{r.bench}/{quote(r.scenario)}.json)"


def _verdict(claim: Claim, found: Mapping[Key, list[Record]]) -> str:
    """Return the targets that are missed with some seed, with the figure, then those that are met."""
    missed, met = [], []
    for name, figure in (claim.judged or {"": claim.figure}).items():
        seeds = _of(found, (claim.area, claim.scenario, claim.method, figure))
        miss = next((r for r in seeds if not r.holds), None)
        if miss:
            value = "" if figure == claim.figure else f"{shown(miss)}, "
            missed.append(f"{name} {value}target {miss.target}".strip())
        else:
            met.append(f"{name} {seeds[0].target}".strip())
    said = {"**missed**": missed, "met": met}
    return "; ".join(f"{word}: {', '.join(targets)}" for word, targets in said.items() if targets)


def _losses(found: Mapping[Key, list[Record]], losses: Sequence[Loss], reasons: Mapping[Missed, str]) -> Iterator[str]:
    judged = [seeds for seeds in found.values() if seeds[0].target]
    met = sum(all(r.holds for r in seeds) for seeds in judged)
    yield f"{met} of {len(judged)} targets are met with every seed. The most important of the others:"
    yield from ("", "| figure | value | target | why |", "|---|---|---|---|")
    missed = []
    for loss in losses:
        area, scenario, figure = loss.missed
        seeds = _of(found, (area, scenario, loss.method, figure))
        missed += [(loss, r) for r in seeds if not r.holds][:1]
    for loss, r in missed[:MOST_LOSSES]:
        yield f"| {loss.text} | {_linked(r)} | {r.target} | {reasons.get(loss.missed, 'Not known.')} |"


if __name__ == "__main__":
    DOCUMENT.write_text(document(read(RECORDS)), encoding="utf-8")

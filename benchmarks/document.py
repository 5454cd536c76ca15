"""Write docs/benchmarks.md from the records next to it: ``python -m benchmarks.document``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from benchmarks.claims import LIVE, SIMULATED, Claim
from benchmarks.document_text import COLUMNS, HEAD, RIVALS, SIMULATED_RIVALS, TAIL
from benchmarks.misses import LOSSES, REASONS, Loss, Missed
from benchmarks.record import Record, grouped, read, shown
from millrace.model.errors import MillraceError

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
RECORDS = DOCUMENT.with_suffix("")
MOST_LOSSES = 10
LINE = "<br>"
"""Separates lines in a cell."""
Key = tuple[str, str, str, str]
"""A benchmark, its scenario, the method, the figure."""


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
    judged = [seeds for seeds in found.values() if seeds[0].target]
    met = sum(all(r.holds for r in seeds) for seeds in judged)
    lines = [HEAD.format(met=met, judged=len(judged)), "## Live: real Spark, processes and tables", "", COLUMNS]
    lines += [_row(claim, found) for claim in live if claim not in waiting]
    lines += ["", RIVALS]
    if waiting:
        lines += ["Not recorded yet:", "", *(f"- {claim.text} (`{claim.command}`)" for claim in waiting), ""]
    lines += ["## Simulated", "", COLUMNS, *(_row(claim, found) for claim in simulated), "", SIMULATED_RIVALS]
    lines += ["## Where Millrace loses", "", *_losses(found, losses, reasons), "", TAIL]
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

    def second(method: str) -> str:
        return f", {claim.second[0]} {_value(usual(method, claim.second[1]))}" if claim.second else ""

    ours = usual(claim.method, claim.figure)
    rivals = LINE.join(
        f"{name}: {shown(usual(method, claim.rival_figure or claim.figure))}{second(method)}"
        for name, method in claim.rivals.items()
    )
    cells = (claim.text.format(n=ours.n), _linked(ours) + second(claim.method), rivals, _verdict(claim, found))
    return f"| {' | '.join(cells)} | `{claim.command}` |"


def _value(r: Record) -> str:
    return shown(replace(r, low=None, high=None))


def _linked(r: Record) -> str:
    return f"[{shown(r)}](benchmarks/{r.bench}/{quote(r.scenario)}.json)"


def _verdict(claim: Claim, found: Mapping[Key, list[Record]]) -> str:
    """Return the targets that are missed with some seed, then those that are met, each with its figure."""
    missed, met = list[str](), list[str]()
    for name, figure in (claim.judged or {"": claim.figure}).items():
        seeds = _of(found, (claim.area, claim.scenario, claim.method, figure))
        miss = next((r for r in seeds if not r.holds), None)
        value = "" if figure == claim.figure else f"{name}: {_value(miss or seeds[0])}, "
        (missed if miss else met).append(f"{value}target {_limit(seeds[0])}")
    return LINE.join([*(f"**missed**: {target}" for target in missed), *(f"met: {target}" for target in met)])


def _limit(record: Record) -> str:
    """Return a target in words."""
    target = str(record.target)
    for sign, words in (("<=", "at most"), (">=", "at least"), ("<", "below"), (">", "above")):
        if target.startswith(sign):
            limit = target.removeprefix(sign)
            return "0" if (sign, limit) == ("<=", "0") else f"{words} {limit}"
    return target


def _losses(found: Mapping[Key, list[Record]], losses: Sequence[Loss], reasons: Mapping[Missed, str]) -> Iterator[str]:
    yield from ("| figure | value | target | why |", "|---|---|---|---|")
    missed = []
    for loss in losses:
        area, scenario, figure = loss.missed
        seeds = _of(found, (area, scenario, loss.method, figure))
        missed += [(loss, r) for r in seeds if not r.holds][:1]
    for loss, r in missed[:MOST_LOSSES]:
        yield f"| {loss.text} | {_linked(r)} | {_limit(r)} | {reasons.get(loss.missed, 'Not known.')} |"


if __name__ == "__main__":
    DOCUMENT.write_text(document(read(RECORDS)), encoding="utf-8")

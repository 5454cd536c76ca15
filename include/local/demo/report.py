"""The run as one page that needs nothing else: no network, no server."""

from __future__ import annotations

from datetime import UTC
from html import escape
from pathlib import Path

from include.local.demo.chart import chart
from include.local.demo.checks import Check, passed
from include.local.demo.figures import Figures
from include.local.demo.profiling import planned
from include.local.demo.timeline import Look, Timeline
from include.local.demo.wording import clock, slots_text
from include.local.stack.files import write_atomically
from include.model.decision import Outcome, Reconfiguration
from include.model.spec import PipelineSpec

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #0b0b0b; background: #f9f9f7; margin: 0; }
main { max-width: 1180px; margin: 0 auto; padding: 24px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 32px 0 8px; }
p.lead { color: #52514e; margin: 0 0 20px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 12px; margin: 20px 0; }
.card, .panel { background: #fff; border: 1px solid #e1e0d9; border-radius: 8px; }
.card { padding: 12px 14px; } .card b { display: block; font-size: 22px; line-height: 1.25; font-weight: 600; }
.card span { color: #52514e; font-size: 13px; }
.panel { padding: 8px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; color: #52514e; font-size: 13px; }
th, td { padding: 7px 10px; border-bottom: 1px solid #eeede8; vertical-align: top; }
tr:last-child td { border-bottom: 0; }
td.tight, th.tight { white-space: nowrap; font-variant-numeric: tabular-nums; }
.badge { display: inline-block; min-width: 1.4em; padding: 0 4px; border-radius: 4px; text-align: center;
  background: #4a3aa7; color: #fff; font-weight: 600; font-size: 13px; }
.held { color: #006300; font-weight: 600; } .failed { color: #b3261e; font-weight: 600; }
details { margin-top: 12px; } summary { cursor: pointer; color: #52514e; }
footer { color: #52514e; font-size: 13px; margin-top: 28px; }
"""


def write_report(path: Path, spec: PipelineSpec, line: Timeline, figures: Figures, checks: tuple[Check, ...]) -> None:
    """Write the page.

    Args:
        path: The HTML file; its folder is made.
        spec: The pipeline.
        line: The run.
        figures: Its figures.
        checks: Its checks.

    Raises:
        MillraceError: If it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page(spec, line, figures, checks))


def page(spec: PipelineSpec, line: Timeline, figures: Figures, checks: tuple[Check, ...]) -> str:
    """Return the page as HTML."""
    picture = chart(line, spec.objective.max_lag_s).to_html(
        full_html=False, include_plotlyjs=True, config={"displaylogo": False, "responsive": True}
    )
    verdict = "all checks held" if passed(checks) else "not all checks held"
    begun = line.begun.astimezone(UTC)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Millrace: {escape(spec.name)} adapted itself</title><style>{STYLE}</style></head><body><main>
<h1>{escape(spec.name)}: {figures.slots_least} to {figures.slots_most} slots and back, {escape(verdict)}</h1>
<p class="lead">{escape(spec.description)}. {begun:%Y-%m-%d %H:%M} UTC, {clock(line.length_s)} minutes,
{figures.rows:,} rows.</p>
{_checks(checks)}
<div class="cards">{_cards(spec, figures)}</div>
<h2>What happened</h2><div class="panel">{picture}</div>
<h2>Decisions that changed something</h2>{_decisions([k for k in line.looks if k.changes], numbered=True)}
<details><summary>The other {sum(not k.changes for k in line.looks)} looks</summary>
{_decisions([k for k in line.looks if not k.changes], numbered=False)}</details>
<h2>Advice</h2>{_decisions([k for k in line.looks if planned(k.decision)], numbered=False)}
<h2>Reconfigurations</h2>{_reconfigurations(line)}
<footer>{_how(spec, figures)}</footer>
</main></body></html>
"""


def _checks(checks: tuple[Check, ...]) -> str:
    rows = "".join(
        f'<tr><td class="tight {"held" if c.held else "failed"}">{"✔ held" if c.held else "✘ failed"}</td>'
        f"<td>{escape(c.claim)}</td><td>{escape(c.detail)}</td></tr>"
        for c in checks
    )
    return f'<div class="panel"><table>{rows}</table></div>'


def cards(spec: PipelineSpec, figures: Figures) -> list[tuple[str, str]]:
    """Return the figures that matter to a person, each as a value and what it is."""
    saved = (
        f"{figures.saved_ratio:+.0%}".replace("+", "−") if figures.saved_ratio >= 0 else f"+{-figures.saved_ratio:.0%}"
    )
    looks = sum(figures.actions.values())
    return [
        (f"{figures.peak_rows_per_s:.0f} rows/s", "highest event rate"),
        (f"{figures.reconfigurations} of {looks}", "looks that changed the slots"),
        (f"{figures.downtime_s:.1f} s", f"downtime, the longest {figures.longest_downtime_s:.1f} s"),
        (f"{figures.time_behind_s:.0f} s", f"behind: a row waited over {spec.objective.max_lag_s:g} s"),
        (f"{figures.worst_lag_s:.0f} s", "longest wait of a row"),
        (f"{figures.core_s:,.0f}", "core-seconds used"),
        (saved, f"against {figures.fixed_slots} slots all the time ({figures.fixed_core_s:,.0f} core-seconds)"),
    ]


def _cards(spec: PipelineSpec, figures: Figures) -> str:
    made = cards(spec, figures)
    return "".join(f'<div class="card"><b>{escape(v)}</b><span>{escape(what)}</span></div>' for v, what in made)


def _decisions(looks: list[Look], *, numbered: bool) -> str:
    if not looks:
        return "<p>None.</p>"
    head = "<th></th>" if numbered else ""
    rows = "".join(
        "<tr>"
        + (f'<td class="tight"><span class="badge">{n}</span></td>' if numbered else "")
        + f'<td class="tight">{clock(k.time_s)}</td>'
        + f'<td class="tight">{escape(slots_text(k.before, k.after))}</td>'
        + f'<td class="tight">{escape(k.decision.action.value)}</td><td>{escape(k.decision.sentence)}</td></tr>'
        for n, k in enumerate(looks, 1)
    )
    titles = f"<tr>{head}<th>time</th><th>slots</th><th>action</th><th>why</th></tr>"
    return f'<div class="panel"><table>{titles}{rows}</table></div>'


def _reconfigurations(line: Timeline) -> str:
    rows = "".join(_reconfiguration(line, change) for change in line.changes)
    titles = (
        "<tr><th>started</th><th>took</th><th>version</th><th>tier</th><th>outcome</th><th>downtime</th><th></th></tr>"
    )
    return f'<div class="panel"><table>{titles}{rows}</table></div>' if rows else "<p>None.</p>"


def _reconfiguration(line: Timeline, change: Reconfiguration) -> str:
    took = f"{(change.ended - change.started).total_seconds():.1f} s" if change.ended else "still open"
    downtime = "" if change.downtime_s is None else f"{change.downtime_s:.1f} s"
    versions = f"{change.from_version or 'none'} → {change.to_version or 'none'}"
    good = change.outcome in (Outcome.READY, Outcome.STOPPED)
    cells = [clock((change.started - line.begun).total_seconds()), took, versions, change.tier]
    tight = "".join(f'<td class="tight">{escape(c)}</td>' for c in cells)
    outcome = f'<td class="tight {"held" if good else "failed"}">{escape(change.outcome.value)}</td>'
    return f'<tr>{tight}{outcome}<td class="tight">{downtime}</td><td>{escape(change.error or "")}</td></tr>'


def _how(spec: PipelineSpec, figures: Figures) -> str:
    return (
        "Event rate: rows committed to the source table, over 4 s. Processing ability: what looks fitted to the "
        "batches at these slots (1 / slope of duration over rows); a gap where these slots were not yet measured. "
        "Core-seconds: slots times time of every driver, two of them during a hand-over. The fixed provisioning is the "
        f"{figures.fixed_slots} slots that the peak over 15 s needs at a utilisation of "
        f"{spec.objective.target_utilisation:g}, by the ability measured in this run. Decisions, reconfigurations and "
        "telemetry are Delta tables; this page was made from them."
    )

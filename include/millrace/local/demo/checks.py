"""The demo's checks: it succeeds only if all of them pass."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from millrace.local.demo.comparison import Comparison
from millrace.local.demo.labels import clock
from millrace.local.demo.timeline import Span, Timeline
from millrace.model.decision import LIVE


@dataclass(frozen=True)
class Check:
    """One claim, whether it held, and the evidence."""

    claim: str
    held: bool
    detail: str


def checks(timeline: Timeline, comparison: Comparison | None, problem: str | None = None) -> tuple[Check, ...]:
    """Return the demo's checks.

    Args:
        timeline: The run.
        comparison: The results compared with a batch computation; None if there are no results.
        problem: Why the run ended early; None if it finished.
    """
    several = (_together(timeline), _without_restart(timeline)) if len(timeline.apps) > 1 else ()
    return (
        _ended(problem),
        _scaled(timeline, up=False),
        _scaled(timeline, up=True),
        *several,
        _caught_up(timeline),
        _equal(comparison),
    )


def passed(checks: tuple[Check, ...]) -> bool:
    """Return whether every check passed."""
    return all(check.held for check in checks)


def steps(timeline: Timeline) -> list[tuple[Span, Span]]:
    """Return the driver before and after each change of slots that a decision made and that became ready."""
    by_version = {c.to_version for c in timeline.changes if c.decision_id}
    ready = {app: [s for s in timeline.spans if s.app == app and s.ready_s is not None] for app in timeline.apps}
    pairs = [
        (a, b) for spans in ready.values() for a, b in pairwise(spans) if b.version in by_version and a.slots != b.slots
    ]
    return sorted(pairs, key=lambda pair: pair[1].ready_s or 0.0)


def _ended(problem: str | None) -> Check:
    return Check("The run finished", problem is None, problem or "the feed ended and all rows were processed")


def _scaled(timeline: Timeline, *, up: bool) -> Check:
    matching = [(a, b) for a, b in steps(timeline) if (b.slots > a.slots) == up]
    named = len(timeline.apps) > 1
    text = ", ".join(
        f"{b.app} " * named + f"{a.slots} to {b.slots} slots at {clock(b.ready_s or 0)}" for a, b in matching
    )
    return Check(f"It scaled {'up' if up else 'down'} automatically", bool(matching), text or "it never did")


def _together(timeline: Timeline) -> Check:
    claim = "One decision gave all apps more slots"
    first = next((evaluation for evaluation in timeline.evaluations if evaluation.grows_all), None)
    if first is None:
        return Check(claim, False, "no decision did")
    sizes = ", ".join(f"{app} {before} to {after}" for app, (before, after) in first.sizes.items())
    return Check(claim, True, f"{sizes} at {clock(first.time_s)}")


def _without_restart(timeline: Timeline) -> Check:
    made = [change for change in timeline.changes if change.decision_id]
    restarts = [change for change in made if change.tier != LIVE]
    text = ", ".join(f"{change.app} restarted for version {change.to_version}" for change in restarts)
    return Check("No driver was restarted", bool(made) and not restarts, text or f"{len(made)} changes of executors")


def _caught_up(timeline: Timeline) -> Check:
    end = np.array([timeline.length_s])
    waiting = int((timeline.arrived(end) - timeline.processed(end))[0])
    came = int(timeline.arrived(end)[0])
    if not came:
        return Check("It caught up", False, "no rows arrived")
    detail = f"all {came:,} rows processed" if waiting <= 0 else f"{waiting:,} of {came:,} rows are still waiting"
    return Check("It caught up", waiting <= 0, detail)


def _equal(comparison: Comparison | None) -> Check:
    claim = "The results equal a batch computation of the same input"
    if comparison is None:
        return Check(claim, False, "there are no results")
    if comparison.equal:
        open_rows = comparison.rows - comparison.closed_rows
        rest = f"; {open_rows:,} in windows still open" if open_rows else ""
        counted = f"{comparison.closed_rows:,} flights in {comparison.groups:,} rows, each counted once"
        return Check(claim, True, f"{counted}{rest}")
    counts = {"lost": comparison.lost, "duplicated": comparison.doubled, "unexpected": comparison.foreign}
    flaws = [f"{n:,} flights {what}" for what, n in counts.items() if n]
    flaws += [f"{comparison.differing:,} of {comparison.groups:,} rows differ"]
    return Check(claim, False, f"{', '.join(flaws)}; {comparison.example}"[:300].rstrip("; "))

"""Slots for more arrival before the next evaluation: planned ahead, carried out by the driver's agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

ALIKE = 0.25
"""Relative change of a rate that does not count as news: each renewal is a version."""


@dataclass(frozen=True)
class Contingency:
    """One line of a plan.

    Attributes:
        app: The app.
        slots: Slots that it gets, more than it has.
        above_rows_per_s: Arrival rate above which it gets them; None if a batch that runs for too long is the sign.
        for_s: Excess rows that must arrive, in seconds of that rate, or how long the batch must run, seconds.
        why: Why the sign is not a rate, for a person; empty if it is one.
        others: Slots that apps which it feeds get in the same version, by app; each at least what it has.
    """

    app: str
    slots: int
    above_rows_per_s: float | None
    for_s: float
    why: str = ""
    others: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ContingencyPlan:
    """The lines of a Deployment, of which its agents may carry out one, once; a version with other slots has none.

    Attributes:
        decision_id: The Decision that it comes from.
        lines: By app and rising slots.
        max_total_slots: Quota over all pipelines' slots; None without one.
        quiet_hours: Spans of the day, UTC, in which nothing is carried out, such as ``22:00-06:00``.
        lapses_s: Time without an evaluation after which nothing is carried out, seconds: nobody would correct it.
        config_hash: Hash of the spec that it was made for.
    """

    decision_id: str
    lines: tuple[Contingency, ...]
    max_total_slots: int | None = None
    quiet_hours: tuple[str, ...] = ()
    lapses_s: float = 300.0
    config_hash: str = ""

    def renews(self, former: ContingencyPlan | None) -> bool:
        """Return whether it differs from a former plan by more than repeated measurements of the same load."""
        if former is None:
            return bool(self.lines)
        apps = {line.app for line in (*self.lines, *former.lines)}
        if replace(self, decision_id="", lines=()) != replace(former, decision_id="", lines=()):
            return True
        return not all(_alike(_of(app, self.lines), _of(app, former.lines)) for app in apps)


def _of(app: str, lines: Sequence[Contingency]) -> list[Contingency]:
    return [line for line in lines if line.app == app]


def _alike(lines: Sequence[Contingency], former: Sequence[Contingency]) -> bool:
    """Return whether two plans of an app begin at about the same rate and lead to the same slots at most."""
    if not lines or not former or _most(lines) != _most(former):
        return not lines and not former
    if [line.why for line in lines if line.why] != [line.why for line in former if line.why]:
        return False
    rate, before = lines[0].above_rows_per_s, former[0].above_rows_per_s
    return rate == before or (
        rate is not None and before is not None and abs(rate - before) <= ALIKE * max(rate, before)
    )


def _most(lines: Sequence[Contingency]) -> Mapping[str, int]:
    """Return the most slots that lines of one app give to each app."""
    most: dict[str, int] = {}
    for app, slots in (each for line in lines for each in ((line.app, line.slots), *line.others.items())):
        most[app] = max(slots, most.get(app, 0))
    return most


def describe(lines: Sequence[Contingency]) -> str:
    """Describe lines, one sentence per app; empty without any."""
    sentences = []
    for app in dict.fromkeys(line.app for line in lines):
        parts = map(_part, _of(app, lines))
        sentences.append(f"{app} gets {', '.join(parts)}.")
    return " ".join(sentences)


def _part(line: Contingency) -> str:
    if line.above_rows_per_s is None:
        return f"{line.slots} slots if a batch runs for more than {line.for_s:.0f} s ({line.why})"
    others = ", ".join(f"{app} {slots}" for app, slots in line.others.items())
    return (
        f"{line.slots} slots{others and f' ({others})'} if more than {rate_text(line.above_rows_per_s)} rows/s arrive"
    )


def rate_text(rows_per_s: float) -> str:
    """Format rows per second: whole from 10 up, one decimal below."""
    return f"{rows_per_s:,.0f}" if rows_per_s >= 10 else f"{rows_per_s:.1f}"

"""Size the memory of executors: more if they die of too little or mostly collect garbage, less if they almost never do.

Not from a paper. Each change restarts the driver, so there are few:

- More, once per size that ran: a second restart would hide a problem that a person must solve, such as a leak or a
  partition too large for any executor.
- Less, by a quarter, after a day with almost no garbage collection. How much heap is in use says little, because the
  JVM fills what it has before it collects. A size that proved too small is not chosen again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from pydantic import Field

from millrace.optimizers.api import AppSignals, Change, Deployment, Memory, Options, Proposal, Signals
from millrace.optimizers.memory import mapping, number, whole

NAME = "executor_memory"
FIELD = "executor_memory_mb"
FEWEST_DEATHS = 2
"""A single death may be a manual kill -9."""
PRESSED_FOR = 3
"""Evaluations in a row with too much garbage collection; one may be a burst."""
FACTOR = 2
CALM_GC_RATIO, CALM_FOR_S = 0.03, 24 * 3600.0
"""Share of tasks' time in garbage collection that each evaluation of so many seconds must keep before a step down."""
SMALLER, UNIT_MB = 0.75, 128
"""Factor of a step down, and what its result is rounded up to, MiB."""


class ExecutorMemoryOptions(Options):
    """Limits of executors' memory, from the spec.

    Attributes:
        min_memory_mb: Least heap of an app's executors, MiB, by app; that of other apps is never lowered.
        max_gc_ratio: Share of tasks' time in garbage collection above which executors need more memory, 0..1, > 0.
    """

    min_memory_mb: Mapping[str, int] = Field(default_factory=dict)
    max_gc_ratio: float = Field(0.25, gt=0, le=1)


@dataclass(frozen=True)
class History:
    """What is remembered of an app's executors; 0 for what never was.

    Attributes:
        size_mb: Heap at the last evaluation, MiB.
        asked_from: Heap when it was to be doubled, MiB.
        raised_from: Heap before it was doubled, MiB.
        lowered_from: Heap before the last step down, MiB.
        too_small: Largest heap that proved too small, MiB.
        pressed: Evaluations in a row with too much garbage collection.
        calm_since: When evaluations with almost no garbage collection began, Unix seconds.
        measured: End of the last evaluation's period, Unix seconds; one of several apps may have the same again.
    """

    size_mb: int = 0
    asked_from: int = 0
    raised_from: int = 0
    lowered_from: int = 0
    too_small: int = 0
    pressed: int = 0
    calm_since: float = 0.0
    measured: float = 0.0

    @classmethod
    def read(cls, stored: object) -> History:
        """Return the history that an optimizer's Memory contains; unreadable values count as missing."""
        values = mapping(stored)
        names = ("size_mb", "asked_from", "raised_from", "lowered_from", "too_small", "pressed")
        since, measured = (number(values.get(name), 0.0) or 0.0 for name in ("calm_since", "measured"))
        return cls(**{name: whole(values.get(name)) for name in names}, calm_since=since, measured=measured)

    def seen(self, gc_ratio: float | None, size_mb: int, now: datetime, max_gc_ratio: float) -> History:
        """Return the history after an evaluation.

        Args:
            gc_ratio: Share of tasks' time in garbage collection, 0..1; None if nothing ran or it is unknown.
            size_mb: The executors' heap, MiB.
            now: The end of the period.
            max_gc_ratio: Share that is too much, 0..1.
        """
        again, self = self.measured == now.timestamp(), replace(self, measured=now.timestamp())
        if self.size_mb not in (0, size_mb):  # some of what was measured is from executors of the former size
            # a change that a guard or a person refused was not tried
            raised = self.asked_from if size_mb == FACTOR * self.asked_from else self.raised_from
            return replace(self, size_mb=size_mb, raised_from=raised, pressed=0, calm_since=0.0)
        if gc_ratio is None or again:
            return replace(self, size_mb=size_mb)
        pressed = self.pressed + 1 if gc_ratio > max_gc_ratio else 0
        calm_since = (self.calm_since or now.timestamp()) if gc_ratio <= CALM_GC_RATIO else 0.0
        return replace(self, size_mb=size_mb, pressed=pressed, calm_since=calm_since)


class ExecutorMemory:
    """Change the memory of one app's executors at a time.

    Args:
        options: The limits that the spec sets.
    """

    Options = ExecutorMemoryOptions

    def __init__(self, options: ExecutorMemoryOptions) -> None:
        self.options = options

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Propose the memory of an executor, and remember what was tried."""
        histories = {name: History.read(value) for name, value in mapping(memory.get("apps")).items()}
        found = Proposal(NAME, (), "memory_suffices", "")
        for app in signals.apps:
            deployed = current.apps.get(app.app)
            if deployed is None or deployed.executor is None:
                continue
            size = deployed.executor.memory_mb
            history = histories.get(app.app, History()).seen(
                app.gc_ratio, size, signals.measured_until(app), self.options.max_gc_ratio
            )
            if not found.changes:  # one restart at a time
                proposal, history = self._of_app(app, size, history, signals.until)
                found = found if proposal is None else proposal
            histories[app.app] = history
        return found, {**memory, "apps": {name: asdict(history) for name, history in histories.items()}}

    def _of_app(self, app: AppSignals, size: int, history: History, now: datetime) -> tuple[Proposal | None, History]:
        if (why := self._too_little(app, size, history)) is not None:
            return _more(app.app, size, why, history)
        least = self.options.min_memory_mb.get(app.app)
        if least is None or not history.calm_since or now.timestamp() - history.calm_since < CALM_FOR_S:
            return None, history
        to = max(least, math.ceil(size * SMALLER / UNIT_MB) * UNIT_MB)
        if to >= size or to <= history.too_small:
            return None, history
        spared = f"for a day, garbage collection took at most {CALM_GC_RATIO:.0%} of the tasks' time with {size:,} MB"
        change, sentence = Change(app.app, FIELD, size, to), f"{app.app}: {spared}; executors get {to:,} MB"
        return Proposal(NAME, (change,), "memory_too_large", sentence), replace(history, lowered_from=size)

    def _too_little(self, app: AppSignals, size: int, history: History) -> str | None:
        """Return what shows that executors have too little memory; None if nothing does."""
        if app.memory_deaths >= FEWEST_DEATHS:
            return f"{app.memory_deaths} executors with {size:,} MB ran out of memory"
        if history.pressed >= PRESSED_FOR and app.gc_ratio is not None:
            return f"garbage collection takes {app.gc_ratio:.0%} of the tasks' time on executors with {size:,} MB"
        return None


def _more(app: str, size: int, why: str, history: History) -> tuple[Proposal, History]:
    history = replace(history, too_small=max(history.too_small, size))
    if size < history.lowered_from:
        change, sentence = Change(app, FIELD, size, history.lowered_from), f"{history.lowered_from:,} MB again"
    elif history.raised_from and size in (history.raised_from, FACTOR * history.raised_from):
        remedy = "More memory was tried once: look for a leak or a large key, or set executor in the spec."
        return Proposal(NAME, (), "memory_raised_before", f"{why}. {remedy}"), history
    else:
        change, sentence = Change(app, FIELD, size, FACTOR * size), f"{FACTOR * size:,} MB, once"
        history = replace(history, asked_from=size)
    return Proposal(NAME, (change,), "memory_too_small", f"{why}; they get {sentence}"), history

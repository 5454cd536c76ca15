"""Raise the limits of a source's batches if full batches are too small to keep up.

Not from a paper. Symbols:
    x       rows that a batch holds at most (``maxFilesPerTrigger`` and the like)
    lambda  arrival rate, rows per second
    o, PA   fixed cost of a batch, seconds, and rows per second without it; rho = lambda / PA
    u       target_utilisation
    T       interval of the trigger, seconds; 0 if batches follow each other as fast as possible

Every x rows cost o, and a trigger with an interval starts one batch per T. So full batches process
    min(x / (o + x / PA), x / T)                                                                      (1)
rows per second, which has to be at least lambda / u:
    x >= lambda o / (u - rho)  and  x >= lambda T / u                                                 (2)
Slots are cheaper to change, so nothing is proposed while the tuner changes them, or if the present slots would be too
few for any batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from millrace.model.arrival import ArrivalBasis, arrival_phrase
from millrace.model.batch_limits import OPTIONS
from millrace.model.contingency import rate_text
from millrace.model.deployment import BATCH_LIMIT, AppDeployment
from millrace.model.gain import SUSTAINABLE
from millrace.model.objective import Objective
from millrace.model.signals import AppSignals, Capacity
from millrace.optimizers.api import Change, Deployment, Memory, Options, Proposal, Signals
from millrace.optimizers.memory import mapping, whole

NAME = "batch_limits"
ROOM = 1.25
"""Batches may hold this factor of the rows that are needed, so a little more arrival needs no second restart."""
MOST = 4.0
"""Largest factor of one change: costs per row are known for batches of about the present size."""
EVALUATIONS = 2
"""Consecutive evaluations that must find batches too small before a restart: a burst may be over by then."""


class NoOptions(Options):
    """No options."""


@dataclass(frozen=True)
class Need:
    """Larger batches that would be enough.

    Attributes:
        rows: Rows that a batch has to hold, with some room.
        factor: The same over the present limit, > 1.
        now: Sustainable throughput at the present slots and limit, rows per second.
        then: The same with the larger batches.
    """

    rows: int
    factor: float
    now: float
    then: float


class BatchLimits:
    """Say which limits of an app's batches are too small, and raise them if its spec allows it.

    Args:
        options: None.
    """

    Options = NoOptions

    def __init__(self, options: NoOptions) -> None:
        self.options = options

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Propose larger limits, and remember how often they were found to be too small."""
        before = {app: whole(value) for app, value in mapping(memory.get("too_small")).items()}
        found: dict[str, int] = {}
        seen: dict[str, str] = {}
        changes: list[Change] = []
        sentences: list[str] = []
        predicted: dict[str, float] = {}
        for app in signals.settled:
            deployed = current.apps.get(app.app)
            if deployed is None or deployed.slots != app.slots:
                continue
            need = find_need(app, signals.objective)
            if need is None:
                continue
            if app.until is not None:
                seen[app.app] = app.until.isoformat()
            again = app.app in seen and mapping(memory.get("seen")).get(app.app) == seen[app.app]
            found[app.app] = min(EVALUATIONS, before.get(app.app, 0) + (not again))
            steps = _steps(app, need)
            acts = _is_tuned(deployed) and found[app.app] >= EVALUATIONS
            sentences.append(_sentence(app, need, steps, signals.period_of(app), acts=acts, tuned=_is_tuned(deployed)))
            if acts:
                changes += steps
                predicted[SUSTAINABLE if len(signals.apps) == 1 else f"{SUSTAINABLE}/{app.app}"] = need.then
        reason = "batches_too_small" if found else "batches_suffice"
        proposal = Proposal(NAME, tuple(changes), reason, " ".join(sentences), predicted if changes else {})
        return proposal, (memory if found == before else {**memory, "too_small": found, "seen": seen})


def find_need(app: AppSignals, objective: Objective) -> Need | None:
    """Return the larger batches with which the present slots would keep up; None if the limit is not the cause."""
    capacity, limit, rate = app.capacity, app.batch_rows_limit, app.arrival_rows_per_s
    if capacity is None or not limit or not rate or app.arrival_basis is ArrivalBasis.AT_LEAST:
        return None
    figures = (rate, capacity.rows_per_s, capacity.fixed_s, app.trigger_s, float(limit))
    if not all(map(math.isfinite, figures)) or min(figures) < 0 or not capacity.rows_per_s:
        return None
    rate = min(rate, app.arrival_recent_rows_per_s or rate)  # a rise may be a burst
    target, rho = objective.target_utilisation, rate / capacity.rows_per_s
    now = _sustains(app, objective, capacity, limit)
    unlimited = _sustains(app, objective, capacity, None)
    if not rate > _planned(app, objective, capacity, limit) or rho >= target or unlimited < rate:
        return None
    enough = max(rate * capacity.fixed_s / (target - rho), rate * app.trigger_s / target)  # (2)
    rows = math.ceil(min(ROOM * enough, MOST * limit))
    return None if rows <= limit else Need(rows, rows / limit, now, _sustains(app, objective, capacity, rows))


def _planned(app: AppSignals, objective: Objective, capacity: Capacity, limit: int) -> float:
    """Return the highest rate for which full batches are planned, rows per second."""
    comes_out = limit / max(app.trigger_s, capacity.fixed_s + limit / capacity.rows_per_s)  # (1)
    return objective.target_utilisation * comes_out


def _sustains(app: AppSignals, objective: Objective, capacity: Capacity, limit: int | None) -> float:
    sustainable = app.sustainable_with(limit, objective, capacity) or 0.0
    return min(sustainable, limit / app.trigger_s) if limit and app.trigger_s else sustainable


def _steps(app: AppSignals, need: Need) -> tuple[Change, ...]:
    """Return the change of each option that limits the app's batches; none if they are not known."""
    raised = ((option, value, math.ceil(need.factor * value)) for option, value in app.batch_limits.items())
    return tuple(Change(app.app, BATCH_LIMIT, now, then, operator=option) for option, now, then in raised)


def _is_tuned(deployed: AppDeployment) -> bool:
    return deployed.submit.get("tune_batches") is True


def _sentence(
    app: AppSignals, need: Need, steps: tuple[Change, ...], period_s: float, *, acts: bool, tuned: bool
) -> str:
    slots = f"{app.slots} slot{'s' * (app.slots != 1)}"
    gain = f"{slots} can then sustain {rate_text(need.then)} rows/s instead of {rate_text(need.now)}"
    if not steps:
        options = f"{', '.join(OPTIONS[:-1])} or {OPTIONS[-1]} of the source"
        return f"Let batches hold {need.rows:,} rows instead of {app.batch_rows_limit:,} ({options}): {gain}."
    if acts:
        arrival = arrival_phrase(app.arrival_basis, rate_text(app.arrival_rows_per_s or 0.0), period_s)
        return f"{arrival}, too much for batches of {app.batch_rows_limit:,} rows; {gain}. A restart applies it."
    raised = " and ".join(f"{c.name} from {c.before:,} to {c.value:,}" for c in steps)
    if tuned:
        return f"Raising {raised} would help: {gain}. Millrace does so if the next evaluation finds the same."
    return f"Raise {raised}: {gain}."

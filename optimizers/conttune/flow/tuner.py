"""flow, the default tuner: one reconfiguration a change of load, and almost never one that is too small.

A look asks three questions. Does every operator suffice for what arrives? If not, all are sized at once, for the rate
at the sources tells what each will have to take in (:mod:`.rates`). If all suffice, would sizing free enough to be
worth a reconfiguration? Otherwise nothing is touched. Sizes are the least levels that suffice with the accepted risk
(:mod:`.curve`), so that little knowledge means more room and not more steps.

Reference:
    Grown from [ContTune] Lian et al., PVLDB 2023. Deviations: the arrival rate is known without its Big phase; the
    surrogate is a power law with a Gaussian process, taken at its lower bound instead of its mean; a step that is
    healthy is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from include.model.decision import Memory, Proposal
from include.model.deployment import Deployment
from include.model.signals import Observation, Signals
from optimizers.conttune.choice import held
from optimizers.conttune.flow import drift
from optimizers.conttune.flow.arrival import arriving, at_rate
from optimizers.conttune.flow.demand import demand
from optimizers.conttune.flow.load import ahead, fluctuation
from optimizers.conttune.flow.memory import AppNotes, Notes, read, write
from optimizers.conttune.flow.options import Options
from optimizers.conttune.flow.rates import Need, learned, needs
from optimizers.conttune.flow.site import Site
from optimizers.conttune.flow.steps import Look, Step, step
from optimizers.conttune.flow.surrogate import estimator
from optimizers.conttune.flow.words import sizing
from optimizers.conttune.inputs import LARGEST, possible
from optimizers.conttune.job import Job, Operator
from optimizers.conttune.reasons import Reason
from optimizers.conttune.tuning import Sizings, Stored, propose

NAME = "flow"
BEHIND = 0.002
"""Share of the arrival rate by which a backlog has to grow before a job is said to fall behind."""
OVERLAP = 32
"""Latest stored observations among which this look's own may be already, where a look is made again."""


class Flow:
    """Sizes apps, and operators that have a p of their own.

    Args:
        options: How sure to be, and what is worth a reconfiguration.
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Say which p each operator should have and why, and what to remember until the next look."""
        return propose(NAME, self._tune, signals, current, memory)

    def model(self, training: Mapping[str, Sequence[float]]) -> Any:
        """Return the scikit-learn estimator of PA(p) for a Proposal's ``training``, as the decision used it.

        Args:
            training: Columns ``parallelism`` and ``processing_ability``, optionally ``noise``.
        """
        return estimator(training, self.options)

    def _tune(self, signals: Signals, job: Job, stored: Stored) -> Sizings:
        app, notes = job.app, read(stored)
        rate = app.arrival_rows_per_s
        if rate is None:
            return [held(job, Reason.RATE_UNKNOWN, signals.bounds)], stored
        if self.options.catch_up and app.backlog_rows is None:
            return [held(job, Reason.BACKLOG_UNKNOWN, signals.bounds)], stored
        now = self._arriving(signals, job, notes)
        if now is not None:
            rate, job = now, at_rate(job, now)
            notes = replace(notes, loads=notes.loads.seen(rate))
        notes = replace(notes, ratios=learned(job, notes.ratios))
        growth = 0.0 if job.operators[0].id is None else (app.backlog_growth_rows_per_s or 0.0)
        look = Look(job.app, (), notes, rate, now is None, growth, growth > BEHIND * rate, self.options)
        look = replace(look, sites=self._sites(signals, job, look))
        if not look.sites:
            return [held(job, Reason.RATE_UNKNOWN, signals.bounds)], write(notes)
        return _ruled(look, step(look), signals.until)

    def _arriving(self, signals: Signals, job: Job, notes: AppNotes) -> float | None:
        """Return what arrives now, rows a second; None if that is worth waiting for."""
        over = notes.unsettled is not None and signals.since >= notes.unsettled
        mean = job.app.arrival_rows_per_s
        now = arriving(job, notes.rate) if self.options.whole_windows else mean
        return mean if now is None and over else now

    def _sites(self, signals: Signals, job: Job, look: Look) -> tuple[Site, ...]:
        """Return the operators whose need is known, each with all that sizing it takes."""
        soon, later = ahead(look.notes.loads) if self.options.proactive else (1.0, 1.0)
        room = max(later, fluctuation(look.notes.loads) if self.options.fluctuation else 1.0) / soon
        n = len(job.sizable)
        wanted, observed = needs(job, look.notes.ratios), _by_operator(signals.observations)
        return tuple(
            self._site(signals, look, operator, wanted[operator.id], observed.get(operator.name, ()), soon, room, n)
            for operator in job.sizable
            if operator.id in wanted
        )

    def _site(
        self,
        signals: Signals,
        look: Look,
        operator: Operator,
        need: Need,
        observed: Sequence[Observation],
        soon: float,
        room: float,
        operators: int,
    ) -> Site:
        notes = look.notes.operators.get(operator.name, Notes())
        if operator.id is None:
            notes = notes.of_batches(look.app, self.options.top_k)
        short = look.behind or (operator.id is None and need.rate > (operator.ability or math.inf))
        notes, points = self._known(signals, operator, notes, observed, short)
        load = demand(
            look.app, operator, need.rate * soon * room, notes, signals.objective, catch_up=self.options.catch_up
        )
        return Site(
            operator=operator,
            bounds=signals.bounds,
            demand=load,
            room=room,
            variance=need.variance,
            observations=points,
            notes=notes,
            time=signals.until,
            options=self.options,
            operators=operators,
        )

    def _known(
        self, signals: Signals, operator: Operator, notes: Notes, stored: Sequence[Observation], short: bool
    ) -> tuple[Notes, Sequence[Observation]]:
        """Return an operator's observations as they would be measured today, this look's included."""
        points = drift.shifted(stored, notes.drift.shifts)
        measured = _measured(operator, signals.until)
        if measured is None:
            return notes, points
        if any(o.time == measured.time and o.parallelism == measured.parallelism for o in points[-OVERLAP:]):
            return notes, points
        if self.options.drift and points:
            known = drift.after(notes.drift, points, measured, signals.since, short, self.options)
            if known.shifts != notes.drift.shifts:
                points = drift.shifted(stored, known.shifts)
            notes = replace(notes, drift=known)
        return notes, [*points, measured]


def _ruled(look: Look, ruled: Step, until: datetime) -> Sizings:
    """Return what is wanted, and what to remember of it."""
    notes, by_name = look.notes, {s.operator.name: s for s in look.sites}
    failing = notes.stepped_up and look.same_rate
    operators = dict(notes.operators)
    for name, site in by_name.items():
        failures = site.notes.failures + failing if name in ruled.small else 0
        operators[name] = replace(site.notes, failures=failures)
    sizings = [
        sizing(by_name[name], ruled.targets.get(name, by_name[name].now), reason)
        for name, reason in ruled.reasons.items()
    ]
    kept = replace(
        notes,
        rate=notes.rate if look.half_old else look.rate,
        unsettled=(notes.unsettled or until) if look.half_old else None,
        stepped=look.rate if ruled.targets else notes.stepped,
        stepped_up=any(target > by_name[name].now for name, target in ruled.targets.items()),
        operators=operators,
    )
    return sizings, write(kept)


def _measured(operator: Operator, time: datetime) -> Observation | None:
    """Return what this look measured of an operator; None if it measured nothing usable."""
    ability, at, error = operator.ability, operator.ability_at, operator.ability_error
    if ability is None or at is None or at < 1 or not (math.isfinite(ability) and ability > 0):
        return None
    return Observation(operator.name, at, ability, error if math.isfinite(error) else 0.0, operator.samples, time)


def _by_operator(observations: Sequence[Observation]) -> Mapping[str, list[Observation]]:
    found: dict[str, list[Observation]] = {}
    for o in observations:
        if o.parallelism >= 1 and possible(o.processing_ability) and 0 <= o.noise <= LARGEST:
            found.setdefault(o.operator, []).append(o)
    return found

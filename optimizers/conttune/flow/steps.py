"""Whether to reconfigure a job, and to what: up where it does not suffice, down where it is worth it, else not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from include.model.signals import AppSignals
from optimizers.conttune.flow.memory import AppNotes
from optimizers.conttune.flow.options import Options
from optimizers.conttune.flow.site import Site
from optimizers.conttune.flow.words import why_up
from optimizers.conttune.reasons import Reason

NEWS = 0.01
"""Relative change of the rate that is one."""
SAME_RATE = 0.05
"""A rate that differs by less from the one that the last step was made for is the same."""
AT_MAXIMUM = {Reason.BACKLOG_TO_DRAIN: Reason.DRAINING, Reason.BATCH_LIMIT: Reason.BATCH_LIMIT_AT_MAXIMUM}
"""What is told where more would help but is not allowed, by what makes the present level too small."""
STEEPEST, USUAL = 2.0, 1.25
"""Levels are freed at most with this power of the load where PA grows with the square root of p, and usually."""


@dataclass(frozen=True)
class Look:
    """A job in one look.

    Attributes:
        app: The app's signals.
        sites: Its operators that can be sized, in topological order.
        notes: What is remembered of the app, from before this look.
        rate: Arrival rate, rows a second.
        half_old: The rate jumped so late in the period that what arrives now cannot be told yet.
        growth: Growth of the backlog of a job of pipelined operators, rows a second.
        behind: The job falls behind for sure.
        options: Flow's.
    """

    app: AppSignals
    sites: tuple[Site, ...]
    notes: AppNotes
    rate: float
    half_old: bool
    growth: float
    behind: bool
    options: Options

    @property
    def same_rate(self) -> bool:
        """True if the rate is what it was when the last step was made."""
        before = self.notes.stepped
        return before is not None and abs(self.rate - before) <= SAME_RATE * max(self.rate, before)

    @property
    def news(self) -> bool:
        """True if the rate is not what it was."""
        before = self.notes.rate
        return before is None or abs(self.rate - before) > NEWS * max(self.rate, before)


@dataclass(frozen=True)
class Step:
    """What is to be done.

    Attributes:
        reasons: Why, by operator name; all operators that are told of.
        targets: Wanted p by operator name; those left out stay.
        small: Names of the operators that do not suffice.
    """

    reasons: Mapping[str, Reason]
    targets: Mapping[str, int] = field(default_factory=dict)
    small: frozenset[str] = frozenset()


def step(look: Look) -> Step:
    """Return what is to be done about a job."""
    unknown = [s for s in look.sites if not s.known]
    known = [s for s in look.sites if s.known]
    if not known:
        return Step({s.operator.name: Reason.CAPACITY_UNKNOWN for s in unknown})
    small = [s for s in known if s.too_small(look.growth > 0)]
    if look.behind and not small:  # what was measured of one of them is too good to be true
        small = [max(known, key=lambda s: s.load_ratio)]
    return _up(look, known, small) if small else _down(look, known)


def _up(look: Look, sites: Sequence[Site], small: Sequence[Site]) -> Step:
    names = frozenset(s.operator.name for s in small)
    targets: dict[str, int] = {}
    reasons: dict[str, Reason] = {}
    for site in (*small, *(s for s in sites if s.operator.name not in names)):  # told first what the step is for
        name = site.operator.name
        if name not in names:
            if site.wanted > site.now or _frees(site, look):
                targets[name] = site.wanted
                reasons[name] = why_up(site) if site.wanted > site.now else Reason.OVER_PROVISIONED
            continue
        reasons[name], target = _higher(site, look.app.source_splits)
        if target != site.now:
            targets[name] = target
    if not any(name in targets for name in names):  # nothing helps what is too small: the others can wait
        return Step({name: reasons[name] for name in names}, small=names)
    falls_behind = look.behind or any(s.rate > s.ability_now for s in sites)
    if look.half_old and not (falls_behind and look.app.arrival_recent_rows_per_s is None):
        return Step(dict.fromkeys(names, Reason.WINDOW_HALF_OLD), small=names)
    return Step(reasons, targets, small=names)


def _higher(site: Site, source_splits: bool) -> tuple[Reason, int]:
    """Return the p that an operator is to have that does not suffice, and why; the present one if nothing helps."""
    if site.starved:
        of_source = source_splits and site.operator.id is None
        return Reason.SOURCE_SPLITS if of_source else Reason.TOO_FEW_TASKS, site.now
    if site.ceiling is not None and site.now >= site.ceiling:
        # what is beyond it is as well given back
        return Reason.INEFFECTIVE_SCALING, max(site.ceiling, site.bounds.min_slots)
    if site.now >= site.bounds.max_slots:
        return AT_MAXIMUM.get(why_up(site), Reason.AT_MAXIMUM), site.now
    return why_up(site), max(site.wanted, site.now + 1)


def _down(look: Look, sites: Sequence[Site]) -> Step:
    stay = _stay(sites, Reason.WELL_PROVISIONED)
    total = sum(s.now for s in sites)
    least = look.options.reshave if look.same_rate else look.options.slack
    steepest = STEEPEST if look.news else USUAL
    if sum(s.now * min(1.0, s.load_ratio) ** steepest for s in sites) > (1 - least) * total:
        return stay  # such a curve would not free enough: no model needed
    if any(s.demand.draining(s.sustained_now) for s in sites):
        return Step({s.operator.name: Reason.DRAINING for s in sites})
    targets = {s.operator.name: p for s in sites if (p := _lower(s)) < s.now}
    freed = sum(s.now - targets[s.operator.name] for s in sites if s.operator.name in targets)
    if not freed:
        unproven = any(s.operator.ability is None for s in sites)
        reason = Reason.LEVEL_NOT_PROVEN if unproven else Reason.NO_SAFE_LOWER_LEVEL
        return stay if total <= len(sites) else _stay(sites, reason)
    if freed < least * total:
        return _stay(sites, Reason.SLACK_TOO_SMALL)
    if look.half_old:
        return Step(dict.fromkeys(targets, Reason.WINDOW_HALF_OLD))
    return Step(dict.fromkeys(targets, Reason.OVER_PROVISIONED), targets)


def _lower(site: Site) -> int:
    if site.operator.ability is not None:
        return site.wanted
    return max(site.wanted, site.levels[0].parallelism)  # not measured now: no extrapolation below what was


def _frees(site: Site, look: Look) -> bool:
    return site.now - site.wanted >= max(1.0, look.options.slack * site.now)


def _stay(sites: Sequence[Site], otherwise: Reason) -> Step:
    return Step({s.operator.name: _why_stay(s, otherwise) for s in sites})


def _why_stay(site: Site, otherwise: Reason) -> Reason:
    if not site.demand.attainable(site.effective):
        return Reason.LATENCY_UNATTAINABLE
    return Reason.DRAINING if site.demand.draining(site.sustained_now) else otherwise

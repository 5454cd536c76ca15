"""The guards between a proposal and a change: a fixed order, each with a veto, all of them in the trace.

Cool-down and changes per hour hold for urgent scale-ups too: right after a restart the backlog that the restart
itself caused looks like urgency, and following it is how a tuner runs away (design: conttune.md, traps).
A change that a person forces passes ``bounds`` and ``quota`` only; the others are told as not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from include.control.evaluation import GateResult
from include.drivers.quota import slots_elsewhere, slots_left
from include.model.decision import GuardOutcome, Outcome, Reconfiguration
from include.model.deployment import Deployment
from include.model.join_spec import Join
from include.model.signals import Bounds
from include.model.spec import GuardsSpec

EFFECTIVE_SHARE = 0.1
"""Least share of the predicted gain that counts as an effect (Flink's autoscaler uses the same default)."""

INEFFECTIVE_FOR = timedelta(hours=1)
"""How long an ineffective scale-up stands against another one: the cause may have gone by then."""

BACK_OFF_S, LONGEST_BACK_OFF_S = 300.0, 3600.0
"""Waits before a content that failed is tried again: a decision must not become a restart storm."""

MIN_MEMORY_MB = 512


@dataclass(frozen=True)
class Scaling:
    """The last verified change of an app's slots, and what it brought (rows a second)."""

    app: str
    before: int
    after: int
    ended: datetime
    capacity_before: float
    capacity_predicted: float
    capacity_achieved: float

    @property
    def ineffective(self) -> bool:
        """True for a scale-up that was to bring more and brought almost nothing of it."""
        promised = self.capacity_predicted - self.capacity_before
        gained = self.capacity_achieved - self.capacity_before
        return self.after > self.before and promised > 0 and gained < EFFECTIVE_SHARE * promised


@dataclass(frozen=True)
class Case:
    """All that the guards look at.

    Attributes:
        now: The present (UTC).
        current: The Deployment that the change starts from.
        target: The content it leads to.
        gate: What the quality gate said.
        bounds: Allowed slots of an app.
        limits: The spec's guards.
        max_per_hour: Changes allowed in any hour.
        history: Reconfigurations of at least the last hour, newest first.
        scalings: The last verified change of each app's slots.
        others: Newest Deployments of the other pipelines.
        forced: True if a person demands the change.
        failed: Reconfigurations towards this very content that failed, newest first.
        open_at_most_s: An open Reconfiguration older than this was left behind by a killed reconciler, seconds.
        join: The spec's join; None without one.
    """

    now: datetime
    current: Deployment
    target: Deployment
    gate: GateResult
    bounds: Bounds
    limits: GuardsSpec
    max_per_hour: int
    history: Sequence[Reconfiguration] = ()
    scalings: Sequence[Scaling] = field(default_factory=tuple)
    others: Sequence[Deployment] = ()
    forced: bool = False
    failed: Sequence[Reconfiguration] = ()
    open_at_most_s: float = 600.0
    join: Join | None = None

    @property
    def restarts(self) -> bool:
        """Whether the change starts a driver anew; what is obeyed without that needs no rest, nor a share of them."""
        return self.target.apps != self.current.apps


Guard = Callable[[Case], str | None]
"""Returns the reason of its veto; None lets pass."""


def judge(case: Case) -> tuple[GuardOutcome, ...]:
    """Ask every guard in the fixed order and return the whole trace."""
    return tuple(_ask(name, guard, case) for name, guard in CHAIN)


def first_veto(trace: Sequence[GuardOutcome]) -> GuardOutcome | None:
    """Return the veto that decides: the first in the order."""
    return next((outcome for outcome in trace if not outcome.passed), None)


def reason_code(veto: GuardOutcome) -> str:
    """Return the reason code of a guard's veto, for example ``cool_down``."""
    return veto.guard.replace(" ", "_").replace("-", "_")


def _ask(name: str, guard: Guard, case: Case) -> GuardOutcome:
    if case.forced and name not in ASKED_WHEN_FORCED:
        return GuardOutcome(name, True, "not asked: the change was forced by a person")
    reason = guard(case)
    return GuardOutcome(name, reason is None, reason or "")


def data_quality(case: Case) -> str | None:
    """Hold on telemetry that the gate refused."""
    return None if case.gate.passed else case.gate.sentence


def bounds(case: Case) -> str | None:
    """Hold slots and a join's settings within the spec's bounds, and memory above Spark's least."""
    for name, app in sorted(case.target.apps.items()):
        low, high = case.bounds.min_slots, case.bounds.max_slots
        if not low <= app.slots <= high:
            return f"{name}: {app.slots} slots; allowed: {low} to {high}"
        if app.memory_mb < MIN_MEMORY_MB:
            return f"{name}: {app.memory_mb} MB of memory; allowed: {MIN_MEMORY_MB} or more"
    return _join_out_of_bounds(case)


def _join_out_of_bounds(case: Case) -> str | None:
    found, allowed = case.target.join, case.join
    if found is None or allowed is None:
        return None
    if not allowed.workers.min <= found.workers <= allowed.workers.max:
        return f"{found.workers} join workers; allowed: {allowed.workers.min} to {allowed.workers.max}"
    if not 1 <= found.block <= allowed.capacity // 2:
        return f"blocks of {found.block} tuples; allowed: 1 to {allowed.capacity // 2}"
    if not 0.0 <= found.shed <= 1.0:
        return f"a shed ratio of {found.shed:g}; allowed: 0 to 1"
    return None


def cool_down(case: Case) -> str | None:
    """Let a reconfiguration end, and then the pipeline settle; back off from a content that failed."""
    oldest = case.now - timedelta(seconds=case.open_at_most_s)
    for change in case.history:
        if change.ended is None and change.outcome is Outcome.OPEN and change.started > oldest:
            return f"{change.app}: the reconfiguration of {_clock(change.started)} is still under way"
    if not case.restarts:
        return None
    if (why := _backing_off(case)) is not None:
        return why
    ended = max((change.ended for change in case.history if change.ended), default=None)
    if ended is None:
        return None
    elapsed_s = (case.now - ended).total_seconds()
    if elapsed_s >= case.limits.cool_down_s:
        return None
    allowed = f"the cool-down is {case.limits.cool_down_s:g} s"
    return f"the last reconfiguration ended {max(elapsed_s, 0):.0f} s ago; {allowed}"


def _backing_off(case: Case) -> str | None:
    """Return why a content that failed is not tried again yet: each failure doubles the wait."""
    if not case.failed:
        return None
    last = case.failed[0]
    wait_s = min(BACK_OFF_S * 2.0 ** (len(case.failed) - 1), LONGEST_BACK_OFF_S)
    elapsed_s = (case.now - (last.ended or last.started)).total_seconds()
    if elapsed_s >= wait_s:
        return None
    return f"this very content failed {elapsed_s:.0f} s ago ({last.error}); it may be tried again after {wait_s:g} s"


def changes_per_hour(case: Case) -> str | None:
    """Hold the number of decided changes in the last hour; launches and healing do not count."""
    if not case.restarts:
        return None
    recent = [c for c in case.history if c.decision_id and c.started > case.now - timedelta(hours=1)]
    made = len({c.decision_id for c in recent})
    if made < case.max_per_hour:
        return None
    return f"{made} changes in the last hour; allowed: {case.max_per_hour}"


def quiet_hours(case: Case) -> str | None:
    """Change nothing within the spec's UTC spans."""
    now = case.now.astimezone(UTC)
    minute = now.hour * 60 + now.minute
    for span in case.limits.quiet_hours:
        start, end = (_minute(text) for text in span.split("-"))
        inside = start <= minute < end if start <= end else minute >= start or minute < end
        if inside:
            return f"it is {now:%H:%M} UTC, within the quiet hours {span}"
    return None


def ineffective_scaling(case: Case) -> str | None:
    """Refuse to scale up again where the last scale-up brought nothing."""
    for last in case.scalings:
        app = last.app
        if app not in case.target.apps or app not in case.current.apps:
            continue
        grows = case.target.apps[app].slots > case.current.apps[app].slots
        if grows and last.ineffective and case.now - last.ended < INEFFECTIVE_FOR:
            return (
                f"{app}: the last step from {last.before} to {last.after} slots was to bring "
                f"{last.capacity_predicted - last.capacity_before:.0f} rows/s more and brought "
                f"{last.capacity_achieved - last.capacity_before:.0f}"
            )
    return None


def quota(case: Case) -> str | None:
    """Hold the slots of all running pipelines together; giving slots back is always allowed."""
    allowed, wanted = case.limits.max_total_slots, case.target.slots
    elsewhere = slots_elsewhere(case.target.pipeline, case.others)
    if allowed is None or wanted <= slots_left(allowed, case.current.slots, elsewhere):
        return None
    return f"{wanted} slots here and {elsewhere} in other pipelines; the quota is {allowed}"


CHAIN: tuple[tuple[str, Guard], ...] = (
    ("data quality", data_quality),
    ("bounds", bounds),
    ("cool-down", cool_down),
    ("changes per hour", changes_per_hour),
    ("quiet hours", quiet_hours),
    ("ineffective scaling", ineffective_scaling),
    ("quota", quota),
)
"""The design's order."""

ASKED_WHEN_FORCED = frozenset({"bounds", "quota"})


def _minute(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def _clock(time: datetime) -> str:
    return f"{time.astimezone(UTC):%H:%M:%S} UTC"

"""One join in one evaluation: its new settings, and the reasons."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.model.deployment import JOIN_FIELDS, SLOTS, Change
from millrace.model.join import JoinSettings
from millrace.optimizers.esj.block_size import choose_block
from millrace.optimizers.esj.load import Load
from millrace.optimizers.esj.options import EsjOptions, JoinPolicy
from millrace.optimizers.esj.shedding import round_to_step, shed_factor
from millrace.optimizers.esj.timers import ThresholdTimers
from millrace.optimizers.esj.workers import is_overloaded, start_workers

OVERLOADED, EXHAUSTED, OVERSIZED = "join_overloaded", "join_exhausted", "join_oversized"
STARTS, TOO_MANY, CHANGING = "join_starts", "join_beyond_bounds", "join_changing"
SHEDS, FITS = "join_sheds", "join_fits"


def choose_settings(
    load: Load, before: JoinSettings, workers: int, present: int, capacity: int, options: EsjOptions
) -> JoinSettings:
    """Return the settings of a join for a wanted number of workers.

    Args:
        load: Measured load.
        before: The settings so far.
        workers: Wanted m, >= 1.
        present: m in force, >= 1.
        capacity: W, >= 2.
        options: The policy's.
    """
    # wanted workers may never come, and present ones may leave: both numbers must hold the window
    block = choose_block(load.kept / min(workers, present), before.block, capacity, options)
    # added workers take the next tuples; shedding as well would lose tuples needlessly until the next evaluation
    relief = min(1.0, present / workers) if options.trigger == "offered" else 1.0
    factor = shed_factor(load.shed_by * relief, options.tau2, options.base, options.shedding)
    return JoinSettings(workers, block, round_to_step(factor, before.shed, options.shed_step))


@dataclass(frozen=True)
class JoinEvaluation:
    """One join in one evaluation.

    Attributes:
        policy: The policy.
        capacity: W, tuples.
        load: Measured load.
        timers: How long utilisation has been high or low.
        is_moving: Whether the last change of workers is not yet in force or verified.
        before: Present settings.
        after: Wanted settings.
        most: Most workers that it can have.
        slots_before: Slots of its app.
        slots_after: Wanted slots of its app.
    """

    policy: JoinPolicy
    capacity: int
    load: Load
    timers: ThresholdTimers
    is_moving: bool
    before: JoinSettings
    after: JoinSettings
    most: int
    slots_before: int
    slots_after: int

    @property
    def reason(self) -> str:
        """Reason code."""
        before, after = self.before, self.after
        if self.is_moving:
            return CHANGING
        if before.workers < min(self.most, start_workers(self.policy)):
            return STARTS
        if after.workers < before.workers and before.workers > self.most:
            return TOO_MANY
        if after.workers != before.workers:
            return OVERLOADED if after.workers > before.workers else OVERSIZED
        if is_overloaded(self.timers, self.policy.options):
            return EXHAUSTED
        return SHEDS if after.shed else FITS

    @property
    def utilisation(self) -> float:
        """Load divided by what the wanted workers can keep."""
        return self.load.tuples / (min(self.after.workers, self.most) * self.capacity)

    def changes(self, app: str) -> tuple[Change, ...]:
        """Return the changes of an app."""
        pairs = [(name, getattr(self.before, f), getattr(self.after, f)) for name, f in JOIN_FIELDS.items()]
        pairs.append((SLOTS, self.slots_before, self.slots_after))
        return tuple(Change(app, name, before, after) for name, before, after in pairs if before != after)

    @property
    def sentence(self) -> str:
        """The evaluation as a sentence.

        For example ``Streams will soon offer 96 % of what 2 workers can hold, 5 workers bring that to 38 %; 40 tuples
        per block instead of 90.``
        """
        parts = (
            self._workers_part(),
            self._partitions_part(),
            self._shed_part(),
            self._block_part(),
            self._slots_part(),
        )
        return "; ".join(filter(None, parts)) + "."

    def _workers_part(self) -> str:
        load, after, options = self._load_part(), self.after.workers, self.policy.options
        workers = _count(after, "worker")
        now = f"{workers} bring{'s' * (after == 1)} that to {_percent(self.utilisation)}"
        return {
            CHANGING: f"{load}, and the last change of workers has not taken effect yet",
            STARTS: f"{workers} {'is' if after == 1 else 'are'} the minimum for this join",
            TOO_MANY: f"{workers} {'is' if after == 1 else 'are'} the maximum for this join",
            OVERLOADED: f"{load}, {now}",
            EXHAUSTED: f"{load}, and no more workers are available",
            OVERSIZED: f"{load}, and no more than {_percent(options.tau0)} over the last {options.cool_s:g} s: {now}",
        }.get(self.reason, load)

    def _partitions_part(self) -> str:
        if self.most >= self.policy.workers.max or self.after.workers < self.most:
            return ""
        partitions = _count(self.most, "state partition")
        return f"its checkpoint has {partitions}, one per worker: only a new checkpoint allows more workers"

    def _load_part(self) -> str:
        workers = self.timers.workers
        utilisation = _percent(self.load.tuples / (workers * self.capacity))
        if self.policy.options.trigger == "window":
            return f"The fullest worker holds {utilisation} of its capacity"
        offer = "will soon offer" if self.load.is_growing else "offer"
        return f"Streams {offer} {utilisation} of what {_count(workers, 'worker')} can hold"

    def _shed_part(self) -> str:
        before, after = self.before.shed, self.after.shed
        if before == after:
            return f"{_percent(after)} of new tuples are still shed" if after else ""
        return f"{_percent(after)} of new tuples will be shed" if after else "shedding ends"

    def _block_part(self) -> str:
        before, after = self.before.block, self.after.block
        return f"{_count(after, 'tuple')} per block instead of {before}" if before != after else ""

    def _slots_part(self) -> str:
        before, after = self.slots_before, self.slots_after
        if after != before:
            return f"this needs {_count(after, 'slot')} instead of {before}"
        return f"slots stay at {before}, so no more workers run at once" if self.after.workers > before else ""


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %"

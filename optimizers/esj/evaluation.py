"""One join in one evaluation: how it is to be set, and why."""

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
    """Return the settings of a join that is to have so many workers.

    Args:
        load: What was measured.
        before: The settings so far.
        workers: m that is wanted, >= 1.
        present: m in force, >= 1.
        capacity: W, >= 2.
        options: The policy's.
    """
    # those that are wanted may never come, and those in force may leave: both have to keep what is there
    block = choose_block(load.kept / min(workers, present), before.block, capacity, options)
    # added workers keep the very next tuples: to shed beside that would lose some for nothing until the next evaluation
    relief = min(1.0, present / workers) if options.trigger == "offered" else 1.0
    factor = shed_factor(load.shed_by * relief, options.tau2, options.base, options.shedding)
    return JoinSettings(workers, block, round_to_step(factor, before.shed, options.shed_step))


@dataclass(frozen=True)
class JoinEvaluation:
    """One join in one evaluation.

    Attributes:
        policy: The policy.
        capacity: W, tuples.
        load: What was measured.
        timers: For how long utilisation has been high or low.
        is_moving: Whether the last change of workers is not in force or not verified yet.
        before: How the join is set.
        after: How it is to be set.
        most: The most workers that it can have.
        slots_before: Slots of its app.
        slots_after: Slots that it is to have.
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
        """Load over what the workers that are wanted can keep."""
        return self.load.tuples / (min(self.after.workers, self.most) * self.capacity)

    def changes(self, app: str) -> tuple[Change, ...]:
        """Return what is to be changed of an app."""
        pairs = [(name, getattr(self.before, f), getattr(self.after, f)) for name, f in JOIN_FIELDS.items()]
        pairs.append((SLOTS, self.slots_before, self.slots_after))
        return tuple(Change(app, name, before, after) for name, before, after in pairs if before != after)

    @property
    def sentence(self) -> str:
        """The evaluation for a person.

        For example ``Streams will soon offer 96 % of what 2 workers can keep, 5 workers are to keep it at 38 %; blocks
        are to hold 40 tuples instead of 90.``
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
        some = f"{_count(after, 'worker')} {'is' if after == 1 else 'are'}"
        now = f"{some} to keep it at {_percent(self.utilisation)}"
        return {
            CHANGING: f"{load}, and the last change of workers is not in force yet",
            STARTS: f"{some} the least that this join has",
            TOO_MANY: f"{some} the most that this join may have",
            OVERLOADED: f"{load}, {now}",
            EXHAUSTED: f"{load}, and there are no more",
            OVERSIZED: f"{load}, and at most {_percent(options.tau0)} for {options.cool_s:g} s: {now}",
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
            return f"The fullest worker keeps {utilisation} of what one can keep"
        offer = "will soon offer" if self.load.is_growing else "offer"
        return f"Streams {offer} {utilisation} of what {_count(workers, 'worker')} can keep"

    def _shed_part(self) -> str:
        before, after = self.before.shed, self.after.shed
        if before == after:
            return f"{_percent(after)} of the new tuples stay shed" if after else ""
        return f"{_percent(after)} of the new tuples are to be shed" if after else "nothing is to be shed any more"

    def _block_part(self) -> str:
        before, after = self.before.block, self.after.block
        return f"blocks are to hold {_count(after, 'tuple')} instead of {before}" if before != after else ""

    def _slots_part(self) -> str:
        before, after = self.slots_before, self.slots_after
        if after != before:
            return f"they need {_count(after, 'slot')} instead of {before}"
        return f"{_count(before, 'slot')} let no more of them work at once" if self.after.workers > before else ""


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %"

"""What the owner of a pipeline asks for: the goals, and the slots that are allowed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from millrace.model import row_wait


@dataclass(frozen=True)
class Objective:
    """The goals of a pipeline's owner.

    Attributes:
        target_utilisation: Highest planned utilisation, (0, 1].
        max_lag_s: Latency goal: the longest time that a row waits, from its arrival to the end of its batch, > 0.
        catch_up_s: Time in which a backlog should drain, > 0.
        max_reconfigurations_per_hour: Upper bound that a guard enforces, >= 0.
    """

    target_utilisation: float = 0.8
    max_lag_s: float = 30.0
    catch_up_s: float = 60.0
    max_reconfigurations_per_hour: int = 60

    def with_trigger(self, interval_s: float) -> Objective:
        """Return the objective as far as a query that runs once per interval can meet it.

        A row waits at least for the next trigger. A goal that is not above the interval becomes twice the interval,
        with which a batch may take as long as its trigger allows.
        """
        goal_s = self.max_lag_s if self.max_lag_s > interval_s else 2 * interval_s
        return replace(self, max_lag_s=goal_s, catch_up_s=max(self.catch_up_s, interval_s))

    def planned_batch_s(self, fixed_s: float | None, trigger_s: float = 0.0) -> float:
        """Return the longest batch that is planned for, seconds, or the trigger's interval if that is longer.

        Args:
            fixed_s: Fixed cost of a batch, seconds; None if unknown.
            trigger_s: Interval of the trigger, seconds.
        """
        longest_s = row_wait.longest_batch_s(self.max_lag_s, trigger_s)
        if fixed_s is not None and self.target_utilisation < 1:
            longest_s = min(longest_s, fixed_s / (1 - self.target_utilisation))
        return max(longest_s, trigger_s)


@dataclass(frozen=True)
class Bounds:
    """Allowed slots of an app, and p of each operator that has its own.

    Attributes:
        min_slots: Fewest, >= 1, a multiple of ``step``.
        max_slots: Most, >= ``min_slots``, a multiple of ``step``.
        step: Tasks that an executor runs at once, >= 1: slots are multiples of it.
        min_key: Spec key that sets the fewest.
        max_key: Spec key that sets the most.
    """

    min_slots: int = 1
    max_slots: int = 8
    step: int = 1
    min_key: str = "slots.min"
    max_key: str = "slots.max"

    def __contains__(self, slots: object) -> bool:
        """Return whether an app may have this number of slots."""
        return isinstance(slots, int) and self.min_slots <= slots <= self.max_slots and slots % self.step == 0

    def __str__(self) -> str:
        """Describe the allowed slots for a person."""
        multiples = f"multiples of {self.step} from " if self.step > 1 else ""
        return f"{multiples}{self.min_slots} to {self.max_slots}"

    @property
    def levels(self) -> range:
        """All allowed numbers of slots, rising."""
        return range(self.min_slots, self.max_slots + 1, self.step)

    def level(self, slots: int) -> int:
        """Return the smallest allowed number of slots that is not below ``slots``, or the largest allowed."""
        return min(max(-(-slots // self.step) * self.step, self.min_slots), self.max_slots)
